package main

import (
	"cmp"
	"context"
	secure "crypto/rand"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

type demoAgentCommand struct {
	Listen string `from:"DEMO_LISTEN_ADDR" default:"127.0.0.1:8081" help:"Address of the agent ($DEMO_LISTEN_ADDR)."`
}

// demoAgent is a small fake agent: it speaks the default protocol, and its answers vary, are sometimes slow and
// sometimes fail, so that every part of the pages has something to show. It draws images if asked to, and also
// plays two models and a judge.
type demoAgent struct {
	listener net.Listener
	server   *http.Server
	// ticket gives the demo's tasks access to the agent.
	ticket string
}

func startDemoAgent(listen string) (*demoAgent, error) {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return nil, fmt.Errorf("start the demo agent: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /agent/run", answerDemo)
	mux.HandleFunc("GET /pictures/{seed}/{name}", servePicture)
	mux.HandleFunc("POST /v1/chat/completions", answerDemoChat)
	d := &demoAgent{listener: listener, server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		ticket: secure.Text()}
	go func() { _ = d.server.Serve(listener) }() // returns when the agent is closed
	return d, nil
}

// startDemoAgentAgain starts the demo agent with the address and ticket of the last start, which are stored in
// folder, so that tasks of the demo can be retried. If the address is taken, it uses another one.
func startDemoAgentAgain(folder string) (*demoAgent, error) {
	place, pass := filepath.Join(folder, "demo.address"), filepath.Join(folder, "demo.ticket")
	address := "127.0.0.1:0"
	if last, err := os.ReadFile(place); err == nil {
		address = strings.TrimSpace(string(last))
	}
	d, err := startDemoAgent(address)
	if err != nil {
		if d, err = startDemoAgent("127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	if last, err := os.ReadFile(pass); err == nil && len(last) > 0 {
		d.ticket = string(last)
	}
	for file, text := range map[string]string{place: d.address() + "\n", pass: d.ticket} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			_ = d.Close()
			return nil, fmt.Errorf("store the demo agent's address: %w", err)
		}
	}
	return d, nil
}

func (d *demoAgent) address() string { return d.listener.Addr().String() }
func (d *demoAgent) url() string     { return "http://" + d.address() + "/agent/run" }
func (d *demoAgent) Close() error    { return d.server.Close() }

// modelsURL returns the base URL of the models that the agent plays.
func (d *demoAgent) modelsURL() string { return "http://" + d.address() + "/v1" }

// Run runs the demo agent alone.
func (c demoAgentCommand) Run(ctx context.Context, log *slog.Logger, stdout io.Writer) error {
	d, err := startDemoAgent(c.Listen)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout,
		"wending demo-agent: %s\nwending demo-agent: models demo-large, demo-small and demo-judge at %s\n", d.url(),
		d.modelsURL())
	<-ctx.Done()
	log.Info("demo agent stopped")
	return d.Close()
}

// answerDemo answers a question, mostly with its standard answer in one of several wordings. The text of a question
// determines how stable its answers are, so it is always the same questions whose answers vary.
func answerDemo(w http.ResponseWriter, r *http.Request) {
	var question struct {
		Question       string `json:"question"`
		StandardAnswer string `json:"standard_answer"`
		Stream         bool   `json:"stream"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&question); err != nil {
		http.Error(w, `{"code":400,"msg":"the body is not JSON"}`, http.StatusBadRequest)
		return
	}
	if question.Stream && paints(question.Question) {
		paint(w, r, question.Question)
		return
	}
	answer, hasFailed := demoAnswer(question.Question, cmp.Or(question.StandardAnswer, "我是一个演示智能体，回答并不稳定。"))
	if hasFailed {
		http.Error(w, `{"code":500,"msg":"模型服务繁忙，请稍后再试"}`, http.StatusInternalServerError)
		return
	}
	wait := 50 + rand.IntN(200)
	if rand.IntN(25) == 0 {
		wait += 1500
	}
	if !sleep(r.Context(), time.Duration(wait)*time.Millisecond) {
		return
	}
	if !question.Stream {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"code": 0, "msg": "ok", "data": map[string]string{"output": answer}})
		return
	}
	streamDemo(w, r, question.Question, answer)
}

// demoAnswer returns the answer to a question with a known standard answer, or a failure.
func demoAnswer(question, known string) (answer string, hasFailed bool) {
	if letter := letterTo(question); letter != nil {
		return letter.next(known), false
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(question))
	switch kind := sum.Sum32() % 8; {
	case kind <= 2: // always the same
	case kind <= 5: // the same in other words
		return []string{known, known, "答案是" + known + "。", known + "（根据公开资料）"}[rand.IntN(4)], false
	case kind == 6: // varying, and long
		return []string{known, "我不确定，可能是" + known + "。", longAnswer(question, known)}[rand.IntN(3)], false
	default: // sometimes failing
		return known, rand.IntN(3) == 0
	}
	return known, false
}

// streamDemo streams an answer a few characters at a time.
func streamDemo(w http.ResponseWriter, r *http.Request, question, answer string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	event := func(name string, data any) {
		line, _ := json.Marshal(map[string]any{"event": name, "data": data})
		_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
		_ = http.NewResponseController(w).Flush()
	}
	delta := func(text string) any {
		return map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]string{"content": text}}}}
	}
	event("reasoning_chunk", delta("用户在问："+question))
	runes := []rune(answer)
	for len(runes) > 0 {
		n := min(len(runes), 24)
		event("llm_chunk", delta(string(runes[:n])))
		runes = runes[n:]
		if !sleep(r.Context(), 5*time.Millisecond) {
			return
		}
	}
	event("node_finished", map[string]any{"output": answer})
}

func longAnswer(question, known string) string {
	return "关于“" + question + "”，需要从几个方面来看。\n\n" +
		"首先，这个问题在不同的资料中有不同的说法，有的资料年代较早，记载比较简略，有的资料则作了详细的考证。" +
		"其次，常见的答案往往来自教科书和百科，经过多次转述后，细节可能已经有所变化，因此在引用时应当核对原始出处。" +
		"再次，如果考虑到地区和时期的差别，同一个名称所指的内容也可能不同，这也是回答不一致的常见原因之一。\n\n" +
		"综合以上几点，比较可靠的答案是：" + known + "。如果需要更准确的结论，建议查阅权威的一手资料，并与多位专家的意见互相印证。"
}

// sleep waits; it returns false if the client has disconnected.
func sleep(ctx context.Context, wait time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(wait):
		return true
	}
}
