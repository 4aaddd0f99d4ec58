package evaluate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"syscall"
	"time"
)

// Expressions, schemas and paths are small languages: the cost of a hostile program cannot be known in advance, and
// some failures, such as a stack overflow, are fatal to a Go process. They are compiled and evaluated in a separate
// child process, which exits when a limit is exceeded; the parent then starts another. The child is this same
// program, started with an environment variable.

// childVariable is set in the environment of a child process.
const childVariable = "WENDING_RULES_CHILD"

// Limits on one compilation or evaluation in a child, and on the child itself.
const (
	maxCPU      = 2 * time.Second
	maxMemory   = 256 << 20
	maxWait     = 30 * time.Second      // how long the parent waits for the child on a busy machine
	watchEvery  = 10 * time.Millisecond // how often the child checks its use of resources
	maxCompiled = 100                   // how many compiled rules a child keeps
)

// order is a request to a child process: to compile rules and, if there is a subject, to judge it by each of them.
type order struct {
	Rules   []ordered
	Subject *Subject
}

// ordered is one rule of an order, with the expected value.
type ordered struct {
	Kind     Kind
	Config   []byte
	Expected string
}

// childAnswer is a child's response for one rule.
type childAnswer struct {
	// Wrong is the fault in the configuration.
	Wrong         *ConfigError
	NeedsExpected bool
	Expected      string
	Variables     []string
	Verdict       Verdict
}

// pool holds the idle child processes of this process, and limits the busy ones: working has a slot for each processor.
type pool struct {
	idle    chan *child
	working chan struct{}
}

func newPool() *pool {
	return &pool{idle: make(chan *child, runtime.NumCPU()), working: make(chan struct{}, runtime.NumCPU())}
}

// children is shared by all rules, so that it limits the resources that the whole process uses for them.
var children = newPool()

// child is a running child process.
type child struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// ask has a child process carry out an order. It returns errLimit if the order exceeds a limit, and ctx's error if
// ctx ends first.
func (p *pool) ask(ctx context.Context, o order) (answers []childAnswer, err error) {
	if ctx.Err() != nil { // otherwise select might choose a free place
		return nil, ctx.Err()
	}
	message, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	select {
	case p.working <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.working }()
	var c *child
	select {
	case c = <-p.idle:
	default:
		if c, err = startChild(); err != nil {
			return nil, err
		}
	}
	bounded, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	stop := context.AfterFunc(bounded, func() { _ = c.process.Process.Kill() })
	_, err = c.in.Write(append(message, '\n'))
	if err == nil {
		var line []byte
		if line, err = c.out.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &answers)
		}
	}
	isAnswered := err == nil && len(answers) == len(o.Rules)
	if isAlive := stop(); isAlive && isAnswered {
		p.idle <- c // the capacity is the number of places, so this never blocks
		return answers, nil
	}
	c.end()
	if isAnswered { // the child was killed just after its answer
		return answers, nil
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, errLimit
}

func startChild() (*child, error) {
	// /proc/self/exe works even if a new version has replaced the program's file
	c := &child{process: exec.Command("/proc/self/exe")}
	c.process.Env = []string{childVariable + "=1", "GOMAXPROCS=2", "GOTRACEBACK=none"}
	c.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if c.in, err = c.process.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := c.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.out = bufio.NewReaderSize(out, 64<<10)
	// A child process dies with the thread that started it, so this thread must not end.
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := c.process.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = c.process.Wait() // the reader of its answer notices its end
	}()
	return c, <-started
}

func (c *child) end() {
	_ = c.in.Close()
	_ = c.process.Process.Kill()
}

// init makes the process a child process if its parent wants one, before anything else happens. Every program that
// contains this package can become one, including tests, so main functions cannot be responsible for this.
func init() {
	if os.Getenv(childVariable) == "" {
		return
	}
	serve(os.Stdin, os.Stdout)
	os.Exit(0)
}

// serve carries out orders until there are no more.
func serve(in io.Reader, out io.Writer) {
	debug.SetMaxStack(64 << 20)
	busySince := new(atomic.Int64) // the CPU time when the current order began; −1 means that there is no order
	busySince.Store(-1)
	go watch(busySince)
	orders, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	compiled := map[string]*Rule{}
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		busySince.Store(int64(processorTime()))
		done := make([]childAnswer, len(o.Rules))
		for n, one := range o.Rules {
			done[n] = carryOut(one, o.Subject, compiled)
		}
		busySince.Store(-1)
		if answers.Encode(done) != nil {
			return
		}
		if len(compiled) > maxCompiled {
			clear(compiled)
		}
	}
}

func carryOut(o ordered, subject *Subject, compiled map[string]*Rule) (answer childAnswer) {
	name := string(o.Kind) + "\n" + string(o.Config)
	rule := compiled[name]
	if rule == nil {
		var err error
		if rule, err = confined[o.Kind](o.Config); err != nil {
			if !errors.As(err, &answer.Wrong) {
				answer.Wrong = wrong("", err, "config.json")
			}
			return answer
		}
		compiled[name] = rule
	}
	answer.NeedsExpected, answer.Expected, answer.Variables = rule.needsExpected, rule.expected, rule.variables
	if subject != nil {
		answer.Verdict = rule.judge(*subject, o.Expected)
	}
	return answer
}

// watch ends the child process when an order exceeds a limit.
func watch(busySince *atomic.Int64) {
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for range time.Tick(watchEvery) {
		since := busySince.Load()
		if metrics.Read(heap); heap[0].Value.Uint64()+heap[1].Value.Uint64() > maxMemory {
			os.Exit(1)
		}
		if since >= 0 && processorTime()-time.Duration(since) > maxCPU {
			os.Exit(1)
		}
	}
}

// processorTime returns the CPU time of this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// confine makes a rule that is compiled and evaluated in child processes.
func confine(ctx context.Context, kind Kind, config json.RawMessage) (*Rule, error) {
	own := ordered{Kind: kind, Config: config}
	answers, err := children.ask(ctx, order{Rules: []ordered{own}})
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, wrong("", err, "config.costly")
	case answers[0].Wrong != nil:
		return nil, answers[0].Wrong
	}
	ready := answers[0]
	return &Rule{expected: ready.Expected, variables: ready.Variables, needsExpected: ready.NeedsExpected, own: &own}, nil
}

// ask has a child process judge an answer by this rule.
func (r *Rule) ask(ctx context.Context, subject Subject, expected string) (Verdict, error) {
	one := *r.own
	one.Expected = expected
	answers, err := children.ask(ctx, order{[]ordered{one}, &subject})
	switch {
	case err != nil && ctx.Err() != nil:
		return Verdict{}, ctx.Err()
	case err != nil:
		return failed(CodeLimit, err.Error()), nil
	}
	return answers[0].Verdict, nil
}

// EvaluateAll judges an answer by several rules, in their order. One child process evaluates all rules that need one,
// which saves messages. The only error is the context's.
func EvaluateAll(ctx context.Context, rules []*Rule, subject Subject) ([]Verdict, error) {
	verdicts := make([]Verdict, len(rules))
	var together []int
	o := order{Subject: &subject}
	for n, rule := range rules {
		one := rule.own
		if one == nil || rule.isLimited() || rule.isSkipped(rule.expectedOf(subject)) {
			var err error
			if verdicts[n], err = rule.Evaluate(ctx, subject); err != nil {
				return nil, err
			}
			continue
		}
		together = append(together, n)
		o.Rules = append(o.Rules, ordered{one.Kind, one.Config, rule.expectedOf(subject)})
	}
	var answers []childAnswer
	if len(together) > 1 {
		// If this fails, each rule is evaluated alone, because one of them may have exceeded a limit.
		answers, _ = children.ask(ctx, o)
	}
	for place, n := range together {
		if answers != nil {
			verdicts[n] = rules[n].note(answers[place].Verdict)
			continue
		}
		var err error
		if verdicts[n], err = rules[n].Evaluate(ctx, subject); err != nil {
			return nil, err
		}
	}
	return verdicts, nil
}
