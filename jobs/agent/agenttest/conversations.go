package agenttest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Conversations simulates an agent of the default protocol that takes part in conversations. It remembers its answers,
// and checks that each history consists of answers that it gave earlier to questions of the same series.
type Conversations struct {
	mu   sync.Mutex
	said map[string]said // keyed by answer
	// wrong holds the histories that do not match what the agent answered.
	wrong []string
}

// said is the context of an answer: the question and the history that the agent was given.
type said struct {
	question string
	history  []string
}

// Answer checks the history of a call and returns an answer that differs from all others.
func (c *Conversations) Answer(call Call) string {
	c.mu.Lock()
	answer := fmt.Sprintf("answer %d to %s", len(c.said)+1, call.Question)
	c.mu.Unlock()
	c.Give(call, answer)
	return answer
}

// Give checks the history of a call and records the answer to it. If the answer was given before, the question
// and history must be the same.
func (c *Conversations) Give(call Call, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said == nil {
		c.said = map[string]said{}
	}
	history := HistoryOf(call)
	if before, isKnown := c.said[answer]; isKnown &&
		(before.question != call.Question || !slices.Equal(before.history, history)) {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: asked again after %q, before after %q", call.Question, history,
			before.history))
	}
	if len(history)%2 != 0 {
		c.wrong = append(c.wrong, fmt.Sprintf("%s: half an exchange: %q", call.Question, history))
	}
	series, _, _ := strings.Cut(call.Question, " ")
	for n := 0; n+1 < len(history); n += 2 {
		before, isKnown := c.said[history[n+1]]
		asked, _, _ := strings.Cut(history[n], " ")
		if !isKnown || before.question != history[n] || !slices.Equal(before.history, history[:n]) || asked != series {
			c.wrong = append(c.wrong, fmt.Sprintf("%s: %q", call.Question, history))
			break
		}
	}
	c.said[answer] = said{call.Question, history}
}

// Wrong returns the histories that do not match what the agent answered.
func (c *Conversations) Wrong() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wrong)
}

// HistoryOf returns the history in a call of the default protocol: alternating questions and answers. It also checks
// that the roles alternate.
func HistoryOf(call Call) (history []string) {
	text, _ := json.Marshal(call.Body["history"])
	var messages []struct{ Role, Content string }
	if json.Unmarshal(text, &messages) != nil {
		return []string{"no history: " + string(text)}
	}
	for n, message := range messages {
		if message.Role != []string{"user", "assistant"}[n%2] {
			return []string{"roles out of turn: " + string(text)}
		}
		history = append(history, message.Content)
	}
	return history
}
