package observe

import (
	"strconv"
	"strings"

	"wending/db/event"
	"wending/jobs/agent/wire"
)

// readers maps the names of protocols to functions that read values other than the answer and the reasoning. Unlisted
// protocols are read by custom. The event names come from the sources that package protocol cites.
var readers = map[string]func(*Watcher, string, wire.Value){
	"openai": (*Watcher).openAI, "openai-responses": (*Watcher).responses, "anthropic": (*Watcher).anthropic,
	"ollama":    (*Watcher).ollama,
	"dify-chat": (*Watcher).dify, "dify-workflow": (*Watcher).dify, "coze": (*Watcher).coze,
	"coze-workflow": (*Watcher).cozeWorkflow,
	"fastgpt":       (*Watcher).fastGPT, "ragflow-chat": (*Watcher).nothing, "ragflow-agent": (*Watcher).ragflow,
	"langserve": (*Watcher).nothing, "langgraph": (*Watcher).langGraph, "a2a": (*Watcher).a2a, "ag-ui": (*Watcher).agUI,
}

// nothing is the function for protocols whose events contain only text.
func (w *Watcher) nothing(string, wire.Value) {}

func (w *Watcher) openAI(_ string, v wire.Value) {
	for _, choice := range v.At("choices").Items {
		for _, from := range []wire.Value{choice.At("delta"), choice.At("message")} {
			for place, one := range from.At("tool_calls").Items {
				key := strconv.Itoa(place)
				if index := numberOf(one.At("index")); index != nil {
					key = string(one.At("index").Text)
				}
				w.begin(key, one.TextOf("id"), one.At("function").TextOf("name"))
				w.more(key, one.At("function").TextOf("arguments"))
			}
			for _, image := range from.At("images").Items { // the form in which some gateways send the output of image models
				w.fileOf(firstOf(image, "image_url", "image"), event.Image)
			}
		}
		if choice.TextOf("finish_reason") != "" {
			w.endAll()
		}
	}
}

// endAll reports all open tool calls as completed, because their input is complete.
func (w *Watcher) endAll() {
	for key := range w.calls {
		w.end(key, event.Completed, nil)
	}
}

func (w *Watcher) responses(name string, v wire.Value) {
	item := v.At("item")
	kind := item.TextOf("type")
	id := firstWord(v.TextOf("item_id"), item.TextOf("id"))
	tool, isCall := strings.CutSuffix(kind, "_call")
	switch {
	case name == "response.output_item.added" && isCall:
		w.begin(id, id, firstWord(item.TextOf("name"), tool))
	case name == "response.output_item.done" && isCall:
		w.begin(id, id, firstWord(item.TextOf("name"), tool))
		w.more(id, item.TextOf("arguments"))
		w.end(id, statusOf(firstWord(item.TextOf("status"), event.Completed)), nil)
		if picture := item.TextOf("result"); picture != "" {
			w.file(false, event.Data{Kind: event.Image, Content: fromBase64(picture)})
		}
	case strings.HasSuffix(name, "_call.partial_image"):
		w.file(true, event.Data{Kind: event.Image, Content: fromBase64(v.TextOf("partial_image_b64"))})
	case strings.HasSuffix(name, "_call.in_progress"), strings.HasSuffix(name, "_call.generating"),
		strings.HasSuffix(name, "_call.searching"),
		strings.HasSuffix(name, "_call.interpreting"):
		stage := name[strings.LastIndexByte(name, '.')+1:]
		w.emit(event.ProgressUpdate, event.Data{
			Message: strings.TrimSuffix(strings.TrimPrefix(name, "response."), "_call."+stage) + ": " + stage, ID: id,
		})
	case hasAny(name, "output_text", "reasoning", "content_part", "output_item", "_call", "refusal"),
		name == "response.created", name == "response.queued", name == "response.in_progress", name == "response.completed",
		name == "response.failed", name == "response.incomplete", name == "error", name == "":
		if name == "response.queued" || name == "response.in_progress" {
			w.node(strings.TrimPrefix(name, "response."), "", event.Started)
		}
	default:
		w.other(name, v)
	}
}

func (w *Watcher) anthropic(name string, v wire.Value) {
	key := string(v.At("index").Text)
	block := v.At("content_block")
	switch name {
	case "content_block_start":
		switch kind := block.TextOf("type"); {
		case strings.HasSuffix(kind, "tool_use"):
			w.begin(key, block.TextOf("id"), block.TextOf("name"))
		case strings.HasSuffix(kind, "tool_result"):
			w.emit(event.Tool, event.Data{
				Name: strings.TrimSuffix(kind, "_tool_result"), ID: block.TextOf("tool_use_id"),
				Status: event.Completed, Output: w.raw(block.At("content")),
			})
		}
	case "content_block_delta":
		w.more(key, v.At("delta").TextOf("partial_json"))
	case "content_block_stop":
		w.end(key, event.Completed, nil)
	case "message":
		for _, one := range v.At("content").Items {
			if strings.HasSuffix(one.TextOf("type"), "tool_use") {
				w.emit(event.Tool, event.Data{
					Name: one.TextOf("name"), ID: one.TextOf("id"), Status: event.Completed,
					Input: w.raw(one.At("input")),
				})
			}
		}
	case "message_start", "message_delta", "message_stop", "ping", "error", "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) ollama(_ string, v wire.Value) {
	for _, one := range v.At("message", "tool_calls").Items {
		w.emit(event.Tool, event.Data{
			Name: one.At("function").TextOf("name"), Status: event.Completed,
			Input: w.raw(one.At("function", "arguments")),
		})
	}
	if status := v.TextOf("status"); status != "" {
		w.emit(event.ProgressUpdate, event.Data{Message: status, Progress: w.percentOf(v)})
	}
}

func (w *Watcher) dify(name string, v wire.Value) {
	if named := v.TextOf("event"); named != "" {
		name = named
	}
	data := v.At("data")
	switch name {
	case "node_started", "iteration_started", "loop_started":
		w.node(firstText(data, "title", "node_type"), firstText(data, "node_id", "id"), event.Started)
	case "node_finished", "iteration_completed", "loop_completed":
		w.node(firstText(data, "title", "node_type"), firstText(data, "node_id", "id"),
			statusOf(firstWord(data.TextOf("status"), event.Completed)))
		w.files(data)
	case "agent_thought":
		tool := v.TextOf("tool")
		if tool == "" {
			return
		}
		status := event.Started
		if v.TextOf("observation") != "" {
			status = event.Completed
		}
		w.emit(event.Tool, event.Data{
			Name: tool, ID: v.TextOf("id"), Status: status, Input: w.jsonOf(v.TextOf("tool_input")),
			Output: w.jsonOf(v.TextOf("observation")),
		})
	case "message_file":
		if belongs := v.TextOf("belongs_to"); belongs != "user" {
			w.fileOf(v, "")
		}
	case "workflow_finished":
		w.files(data.At("outputs"))
		w.files(data)
	case "message", "agent_message", "text_chunk", "reasoning_chunk", "message_end", "message_replace", "error", "ping",
		"workflow_started", "tts_message", "tts_message_end", "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) coze(name string, v wire.Value) {
	switch kind := v.TextOf("type"); {
	case name == "conversation.message.completed" && kind == "function_call":
		call, _ := wire.Parse([]byte(v.TextOf("content")))
		w.emit(event.Tool, event.Data{
			Name: firstWord(call.TextOf("name"), "function_call"), ID: v.TextOf("id"), Status: event.Started,
			Input: w.raw(call.At("arguments")),
		})
	case name == "conversation.message.completed" && kind == "tool_response":
		w.emit(event.Tool, event.Data{
			Name: "tool_response", ID: v.TextOf("id"), Status: event.Completed, Output: w.jsonOf(v.TextOf("content")),
		})
	case name == "conversation.message.completed" && v.TextOf("content_type") == "object_string":
		parts, _ := wire.Parse([]byte(v.TextOf("content")))
		for _, part := range parts.Items {
			w.fileOf(part, "")
		}
	case hasAny(name, "conversation."), name == "done", name == "error", name == "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) cozeWorkflow(name string, v wire.Value) {
	switch name {
	case "Message":
		title := v.TextOf("node_title")
		if title != w.stage {
			w.stage = title
			w.node(title, string(v.At("node_seq_id").Text), event.Started)
		}
		if v.At("node_is_finish").IsTrue() {
			w.node(title, string(v.At("node_seq_id").Text), event.Completed)
		}
	case "Error", "Done", "PING", "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) fastGPT(name string, v wire.Value) {
	tool := v.At("tool")
	switch name {
	case "flowNodeStatus":
		w.node(firstText(v, "name", "nodeId"), v.TextOf("nodeId"), statusOf(firstWord(v.TextOf("status"), event.Started)))
	case "toolCall":
		w.begin(tool.TextOf("id"), tool.TextOf("id"), firstText(tool, "toolName", "functionName"))
	case "toolParams":
		w.more(tool.TextOf("id"), tool.TextOf("params"))
	case "toolResponse":
		w.end(tool.TextOf("id"), event.Completed, stringJSON(tool.TextOf("response")))
	case "answer", "fastAnswer", "flowResponses", "workflowDuration", "error", "":
		w.openAI(name, v)
	default:
		w.other(name, v)
	}
}

func (w *Watcher) ragflow(name string, v wire.Value) {
	if named := v.TextOf("event"); named != "" {
		name = named
	}
	data := v.At("data")
	switch name {
	case "node_started":
		w.node(firstText(data, "component_name", "component_id"), data.TextOf("component_id"), event.Started)
	case "node_finished":
		status := event.Completed
		if data.TextOf("error") != "" {
			status = event.Failed
		}
		w.node(firstText(data, "component_name", "component_id"), data.TextOf("component_id"), status)
	case "message", "message_end", "workflow_started", "workflow_finished", "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) langGraph(name string, v wire.Value) {
	switch name, _, _ = strings.Cut(name, "|"); name {
	case "updates":
		for _, node := range v.Fields {
			w.node(node.Name, "", event.Completed)
		}
	case "messages":
		if len(v.Items) > 0 {
			w.langMessage(v.Items[0])
		}
	case "messages/complete":
		for _, message := range v.Items {
			w.langMessage(message)
		}
	case "custom":
		inner := firstText(v, "event", "type", "name")
		if inner == "" && w.percentOf(v) != nil {
			inner = "progress"
		}
		if inner == "" {
			w.other(name, v)
			return
		}
		w.custom(inner, v)
	case "metadata", "values", "messages/partial", "messages/metadata", "error", "end", "":
	default:
		w.other(name, v)
	}
}

// langMessage reports the tools that a LangChain message calls, or the result of a tool.
func (w *Watcher) langMessage(message wire.Value) {
	if message.TextOf("type") == "tool" {
		w.emit(event.Tool, event.Data{
			Name: firstWord(message.TextOf("name"), "tool"), ID: message.TextOf("tool_call_id"),
			Status: event.Completed, Output: w.raw(message.At("content")),
		})
		return
	}
	for _, one := range message.At("tool_calls").Items {
		if name := one.TextOf("name"); name != "" {
			w.emit(event.Tool, event.Data{Name: name, ID: one.TextOf("id"), Status: event.Started, Input: w.raw(one.At("args"))})
		}
	}
}

func (w *Watcher) a2a(_ string, v wire.Value) {
	result := v.At("result")
	for _, within := range []wire.Value{result, result.At("task"), result.At("statusUpdate")} {
		status := within.At("status")
		state := strings.ToLower(strings.TrimPrefix(status.TextOf("state"), "TASK_STATE_"))
		if state == "" {
			continue
		}
		if state != w.stage {
			w.stage = state
			reached := statusOf(state)
			if reached == event.Started && state != "submitted" {
				reached = event.Generating
			}
			w.node(state, "", reached)
		}
		var said []string
		for _, part := range status.At("message", "parts").Items {
			if text := part.TextOf("text"); text != "" {
				said = append(said, text)
			}
		}
		percent := w.percentOf(firstOf(within, "metadata"))
		if (len(said) > 0 || percent != nil) && state != "completed" {
			w.emit(event.ProgressUpdate, event.Data{Message: strings.Join(said, "\n"), Progress: percent})
		}
	}
	for _, within := range []wire.Value{result, result.At("artifactUpdate"), result.At("task")} {
		artifacts := append([]wire.Value{within.At("artifact")}, within.At("artifacts").Items...)
		for _, artifact := range artifacts {
			for _, part := range artifact.At("parts").Items {
				w.fileOf(part, "")
			}
		}
	}
}

func (w *Watcher) agUI(name string, v wire.Value) {
	id := v.TextOf("toolCallId")
	switch name {
	case "STEP_STARTED":
		w.node(v.TextOf("stepName"), "", event.Started)
	case "STEP_FINISHED":
		w.node(v.TextOf("stepName"), "", event.Completed)
	case "TOOL_CALL_START":
		w.begin(id, id, v.TextOf("toolCallName"))
	case "TOOL_CALL_CHUNK":
		w.begin(id, id, v.TextOf("toolCallName"))
		w.more(id, v.TextOf("delta"))
	case "TOOL_CALL_ARGS":
		w.more(id, v.TextOf("delta"))
	case "TOOL_CALL_RESULT":
		w.end(id, event.Completed, w.jsonOf(v.TextOf("content")))
	case "ACTIVITY_SNAPSHOT":
		content := v.At("content")
		w.emit(event.ProgressUpdate, event.Data{
			Message: firstWord(content.TextOf("message"), v.TextOf("activityType")), Progress: w.percentOf(content),
			ID: v.TextOf("messageId"),
		})
		w.preview(content)
	case "ACTIVITY_DELTA":
		for _, change := range v.At("patch").Items {
			if path := change.TextOf("path"); hasAny(path, "percent", "progress") {
				w.emit(event.ProgressUpdate, event.Data{
					Message: v.TextOf("activityType"), Progress: numberOf(change.At("value")),
					ID: v.TextOf("messageId"),
				})
			}
		}
	case "CUSTOM":
		w.custom(firstWord(v.TextOf("name"), "custom"), v.At("value"))
	case "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "TOOL_CALL_END", "":
	default:
		if !hasAny(name, "TEXT_MESSAGE_", "REASONING_", "THINKING_") {
			w.other(name, v)
		}
	}
}
