package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"wending/jobs/dataset"
	"wending/static"
)

// demoModel is one of the models that the demo agent simulates in OpenAI's chat protocol. They differ in stability,
// speed and, through the prices in the library, cost.
type demoModel struct {
	// least is the minimum duration of an answer, and more is the maximum additional duration.
	least, more time.Duration
	// wordings is how many of 100 answers are worded differently, and mistakes is how many are wrong.
	wordings, mistakes int
}

var demoModels = map[string]demoModel{
	"demo-large": {least: 80 * time.Millisecond, more: 60 * time.Millisecond, wordings: 6},
	"demo-small": {least: 20 * time.Millisecond, more: 30 * time.Millisecond, wordings: 35, mistakes: 12},
	demoJudge:    {least: 30 * time.Millisecond, more: 30 * time.Millisecond},
}

// demoAnswers returns the standard answers to the sample questions, which the demo's models know.
var demoAnswers = sync.OnceValue(func() map[string]string {
	answers := map[string]string{}
	set, err := dataset.Read(context.Background(), "sample.csv", static.Content("sample.csv"), dataset.Layout{})
	if err != nil { // cannot fail, because the file is compiled in
		panic(err)
	}
	for _, row := range set.Rows {
		answers[row.Question] = row.StandardAnswer
	}
	return answers
})

// answer returns the model's answer to a prompt.
func (m demoModel) answer(system, user string) string {
	known := "我是演示模型，只认识示例数据集中的问题。"
	for question, answer := range demoAnswers() {
		if strings.Contains(user, question) {
			known = answer
		}
	}
	chance := rand.IntN(100)
	if chance < m.mistakes {
		known = "暂时无法确定"
	}
	isShort := strings.Contains(system+user, "只回答")
	switch {
	case isShort && chance >= m.mistakes+m.wordings/2:
		return known
	case isShort:
		return known + "。"
	case chance >= m.mistakes+m.wordings:
		return "分析：先确认问题问的是什么，再核对常见的资料。\n结论：" + known + "。"
	}
	return []string{
		"分析：这个问题在教科书和百科中都有记载，说法基本一致。\n结论：" + known + "。",
		"先看问题的关键词，再排除容易混淆的说法，可以得到答案：" + known + "。",
		"根据公开资料，答案是" + known + "。以上分析仅供参考。",
	}[rand.IntN(3)]
}

// answerDemoChat answers as a model, with its usage, streamed if the request asks for it.
func answerDemoChat(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model    string `json:"model"`
		Stream   bool   `json:"stream"`
		Messages []struct {
			Role    string `json:"role"`
			Content string `json:"content"`
		} `json:"messages"`
	}
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&request); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprint(w, `{"error":{"message":"the body is not JSON","type":"invalid_request_error"}}`)
		return
	}
	model, isKnown := demoModels[request.Model]
	if !isKnown {
		w.WriteHeader(http.StatusNotFound)
		_, _ = fmt.Fprint(w,
			`{"error":{"message":"the demo has demo-large, demo-small and demo-judge","type":"invalid_request_error","code":"model_not_found"}}`)
		return
	}
	texts := map[string]string{}
	asked := 0
	for _, message := range request.Messages {
		texts[message.Role] += message.Content
		asked += utf8.RuneCountInString(message.Content)
	}
	answer := ""
	switch {
	case request.Model != demoJudge:
		answer = model.answer(texts["system"], texts["user"])
	case numbered.MatchString(texts["user"]):
		answer = groupDemo(texts["user"])
	default:
		answer = judgeDemo(texts["user"])
	}
	said := utf8.RuneCountInString(answer)
	usage := map[string]int{"prompt_tokens": asked + 8, "completion_tokens": said, "total_tokens": asked + 8 + said}
	if !sleep(r.Context(), model.least+rand.N(model.more)) {
		return
	}
	if !request.Stream {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"id": "demo", "object": "chat.completion", "model": request.Model, "usage": usage,
			"choices": []any{map[string]any{"index": 0, "finish_reason": "stop",
				"message": map[string]string{"role": "assistant", "content": answer}}},
		})
		return
	}
	streamDemoChat(w, r, request.Model, answer, usage)
}

// streamDemoChat streams a model's answer a few characters at a time, and its usage last.
func streamDemoChat(w http.ResponseWriter, r *http.Request, model, answer string, usage map[string]int) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	send := func(chunk map[string]any) {
		chunk["id"], chunk["object"], chunk["model"] = "demo", "chat.completion.chunk", model
		line, _ := json.Marshal(chunk)
		_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
		_ = http.NewResponseController(w).Flush()
	}
	delta := func(text, reason string) map[string]any {
		choice := map[string]any{"index": 0, "delta": map[string]string{"content": text}}
		if reason != "" {
			choice["finish_reason"] = reason
		}
		return map[string]any{"choices": []any{choice}}
	}
	for runes := []rune(answer); len(runes) > 0; {
		n := min(len(runes), 24)
		send(delta(string(runes[:n]), ""))
		runes = runes[n:]
		if !sleep(r.Context(), 4*time.Millisecond) {
			return
		}
	}
	send(delta("", "stop"))
	send(map[string]any{"choices": []any{}, "usage": usage})
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}
