package evaluate

import (
	"bufio"
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

// Expressions, schemas and paths are small languages: what a hostile one takes cannot be told beforehand, and some of it,
// such as a stack that overflows, no program survives. They are compiled and evaluated in a process of their own, a child,
// which ends itself when one takes too much; its parent starts another. The child is this program again, under a variable
// of its environment.

// childVariable says that a process is a child.
const childVariable = "WENDING_RULES_CHILD"

// What one compilation or evaluation may take in a child, and how long its parent waits where the machine is busy.
const (
	maxCPU      = 2 * time.Second
	maxMemory   = 256 << 20
	maxWait     = 30 * time.Second
	watchEvery  = 10 * time.Millisecond
	maxCompiled = 100
)

// order is what a child is asked: to compile a rule and, if there is a subject, to judge it.
type order struct {
	Kind     Kind
	Config   []byte
	Subject  *Subject
	Expected string
}

// childAnswer is what a child says.
type childAnswer struct {
	// Wrong is what is wrong with the configuration.
	Wrong         *ConfigError
	NeedsExpected bool
	Expected      string
	Verdict       Verdict
}

// The children of this process that are idle. As many as there are processors work at once.
var (
	idle    = make(chan *child, runtime.NumCPU())
	working = make(chan struct{}, runtime.NumCPU())
)

// child is a running child process.
type child struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// ask has a child carry out an order. It returns errLimit if that takes too much.
func ask(o order) (answer childAnswer, err error) {
	message, err := json.Marshal(o)
	if err != nil {
		return answer, err
	}
	working <- struct{}{}
	defer func() { <-working }()
	var c *child
	select {
	case c = <-idle:
	default:
		if c, err = startChild(); err != nil {
			return answer, err
		}
	}
	stop := time.AfterFunc(maxWait, func() { _ = c.process.Process.Kill() })
	_, err = c.in.Write(append(message, '\n'))
	if err == nil {
		var line []byte
		if line, err = c.out.ReadBytes('\n'); err == nil {
			err = json.Unmarshal(line, &answer)
		}
	}
	if stop.Stop(); err != nil {
		c.end()
		return answer, errLimit
	}
	idle <- c // as many as may work fit in
	return answer, nil
}

func startChild() (*child, error) {
	c := &child{process: exec.Command("/proc/self/exe")} // also where a new version has taken this one's place
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
	// A child dies with the thread that started it, so this one must not end.
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := c.process.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = c.process.Wait() // its end is seen where its answer is read
	}()
	return c, <-started
}

func (c *child) end() {
	_ = c.in.Close()
	_ = c.process.Process.Kill()
}

// init makes the process a child if its parent wants one: before it does anything else.
func init() {
	if os.Getenv(childVariable) == "" {
		return
	}
	serve(os.Stdin, os.Stdout)
	os.Exit(0)
}

// busySince is what the child's processors had done when the order began that it carries out; −1 without one.
var busySince atomic.Int64

// serve carries out orders until there are no more.
func serve(in io.Reader, out io.Writer) {
	debug.SetMaxStack(64 << 20)
	busySince.Store(-1)
	go watch()
	orders, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	compiled := map[string]*Rule{}
	for {
		var o order
		if orders.Decode(&o) != nil {
			return
		}
		busySince.Store(int64(processorTime()))
		answer := carryOut(o, compiled)
		busySince.Store(-1)
		if answers.Encode(answer) != nil {
			return
		}
		if len(compiled) > maxCompiled {
			clear(compiled)
		}
	}
}

func carryOut(o order, compiled map[string]*Rule) (answer childAnswer) {
	name := string(o.Kind) + "\n" + string(o.Config)
	rule := compiled[name]
	if rule == nil {
		var err error
		if rule, err = confined[o.Kind](o.Config); err != nil {
			if !errors.As(err, &answer.Wrong) {
				answer.Wrong = wrong("", "%v", err)
			}
			return answer
		}
		compiled[name] = rule
	}
	answer.NeedsExpected, answer.Expected = rule.needsExpected, rule.expected
	if o.Subject != nil {
		answer.Verdict = rule.judge(*o.Subject, o.Expected)
	}
	return answer
}

// watch ends the child when an order takes too much.
func watch() {
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

// processorTime is what the processors have done for this process.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// confine makes a rule that is compiled and evaluated in children.
func confine(kind Kind, config json.RawMessage) (*Rule, error) {
	answer, err := ask(order{Kind: kind, Config: config})
	switch {
	case errors.Is(err, errLimit):
		return nil, wrong("", "it takes too much time or memory")
	case err != nil:
		return nil, wrong("", "%v", err)
	case answer.Wrong != nil:
		return nil, answer.Wrong
	}
	return &Rule{expected: answer.Expected, needsExpected: answer.NeedsExpected, judge: func(s Subject, expected string) Verdict {
		answer, err := ask(order{kind, config, &s, expected})
		if err != nil {
			return failed(CodeLimit, err.Error())
		}
		return answer.Verdict
	}}, nil
}
