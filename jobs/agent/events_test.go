package agent_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/event"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/protocol"
	"wending/jobs/agent/wire"
)

// sink is a log of one call.
type sink struct{ *event.Log }

func newSink() sink { return sink{event.NewLog(0)} }

func (s sink) Emit(kind event.Type, data event.Data) { s.Log.Emit(kind, data) }

// The events reported for every recording add up to its answer, and reporting them does not change the answer.
func TestTheEventsOfEveryRecordingAmountToItsAnswer(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	tested := 0
	for _, recording := range agenttest.Recordings(t) {
		name, isStream := protocolOf(recording)
		if strings.HasPrefix(recording.Protocol, "default-agent") {
			name, isStream = protocol.Default, recording.Protocol == "default-agent"
		}
		if name == "" {
			continue
		}
		tested++
		t.Run(recording.File, func(t *testing.T) {
			t.Parallel()
			request := protocol.Request{Protocol: name, URL: recording.Serve(t), Question: "法国的首都是哪里？", Stream: isStream,
				Timeout: 20 * time.Second}
			plain := client.Ask(t.Context(), request)
			log := newSink()
			log.Begin()
			request.Events = log
			answer := client.Ask(t.Context(), request)
			require.Equal(t, plain.Status, answer.Status)
			require.Equal(t, plain.ErrorCode, answer.ErrorCode)
			require.Equal(t, string(plain.Text), string(answer.Text))
			text, reasoning := "", ""
			for n, one := range log.Take() {
				require.Equal(t, n+1, one.Seq)
				switch {
				case one.Type == event.Text && one.Data.Replaces:
					text = one.Data.Text
				case one.Type == event.Text:
					text += one.Data.Text
				case one.Type == event.Reasoning:
					reasoning += one.Data.Text
				}
			}
			if answer.Status == protocol.Succeeded {
				require.Equal(t, string(answer.Text), text)
				require.Equal(t, string(answer.Reasoning), reasoning)
			}
		})
	}
	require.Greater(t, tested, 110)
}

// The events of the recordings apart from their text, in the common vocabulary, one per line.
func TestWhatRecordingsReportOnTheWay(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	want := map[string]string{
		"captured/mockllm_a2a_v03_countdown.sse": `node submitted started
node working generating
progress_update Starting countdown from 3 seconds...
progress_update 2 seconds remaining...
progress_update 1 seconds remaining...
progress_update 0 seconds remaining...
node completed completed`,
		"captured/langgraph_messages_tuple_updates_custom.sse": `progress_update 50%
image_preview image http://127.0.0.1:2024/preview.png previews/1 50%
node agent completed`,
		"composed/dify_chat_agent.sse": `tool search completed {"search":{"q":"法国首都"}} "巴黎是法国首都"
asset image http://127.0.0.1:9/files/cat.png?sign=1 cat.png`,
		"composed/dify_workflow_run.sse": `node LLM started
node LLM completed`,
		"composed/coze_workflow_stream.sse": `node Message started
node Message completed
node End started
node End completed`,
		"composed/ragflow_agent.sse": `node Message:0 completed`,
		"composed/openai_chat_tool_calls_only.sse": `tool search started
tool search completed {"q":"法国"}`,
		"composed/openai_responses_image_progress.sse": `node queued started
node in_progress started
tool image_generation started
progress_update image_generation: in_progress
progress_update image_generation: generating
image_preview image previews/1 70 bytes
tool image_generation completed
asset image image-1 70 bytes`,
		"composed/agui_reasoning_activity.sse": `node search started
progress_update SEARCH 0%
progress_update SEARCH 80%
node search completed`,
		"composed/ollama_pull_progress.ndjson": `progress_update pulling manifest
progress_update pulling 6a0746a1ec1a 0.011293340140197262%
progress_update pulling 6a0746a1ec1a 100%
progress_update success`,
		"composed/default_agent_progress_assets.sse": `progress_update 排队中 10%
progress_update 60%
image_preview image http://127.0.0.1:9/p/1.png previews/1 60%
asset image http://127.0.0.1:9/a/1.png 1.png`,
		"nasty/unknown_events_and_types.sse": `other brand_new {"event":"brand_new","data":[1,2]}`,
	}
	tested := 0
	for _, recording := range agenttest.Recordings(t) {
		expected, isListed := want[recording.File]
		if !isListed {
			continue
		}
		tested++
		t.Run(recording.File, func(t *testing.T) {
			t.Parallel()
			name, isStream := protocolOf(recording)
			if name == "" {
				name, isStream = protocol.Default, true
			}
			if recording.Protocol == "ollama-progress" {
				name = "ollama"
			}
			log := newSink()
			log.Begin()
			client.Ask(t.Context(), protocol.Request{Protocol: name, URL: recording.Serve(t), Question: "?", Stream: isStream,
				Timeout: 20 * time.Second, Events: log})
			var lines []string
			for _, one := range log.Take() {
				if one.Type != event.Text && one.Type != event.Reasoning && one.Type != event.TaskStarted {
					lines = append(lines, line(one))
				}
			}
			require.Equal(t, expected, strings.Join(lines, "\n"))
		})
	}
	require.Len(t, want, tested)
}

func line(e event.Event) string {
	d := e.Data
	text := string(e.Type)
	for _, part := range []string{d.Kind, d.Name, d.Status, d.Message, d.URL, d.Path, string(d.Input), string(d.Output),
		string(d.Raw)} {
		if part != "" {
			text += " " + wire.Cut(part, 100)
		}
	}
	if d.Progress != nil {
		text += fmt.Sprintf(" %g%%", *d.Progress)
	}
	if len(d.Content) > 0 {
		text += fmt.Sprintf(" %d bytes", len(d.Content))
	}
	return text
}
