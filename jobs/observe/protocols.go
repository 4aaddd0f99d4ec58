package observe

import (
	"strconv"
	"strings"

	"wending/jobs/event"
	"wending/jobs/wire"
)

// readers read what is neither answer nor reasoning, by the protocol's name. Protocols that are not listed are read as custom does.
// The names of their events are those of the sources that package protocol names.
var readers = map[string]func(*Watcher, string, wire.Value){
	"openai": (*Watcher).openAI, "openai-responses": (*Watcher).responses, "anthropic": (*Watcher).anthropic, "ollama": (*Watcher).ollama,
	"dify-chat": (*Watcher).dify, "dify-workflow": (*Watcher).dify, "coze": (*Watcher).coze, "coze-workflow": (*Watcher).cozeWorkflow,
	"fastgpt": (*Watcher).fastGPT, "ragflow-chat": (*Watcher).nothing, "ragflow-agent": (*Watcher).ragflow,
	"langserve": (*Watcher).nothing, "langgraph": (*Watcher).langGraph, "a2a": (*Watcher).a2a, "ag-ui": (*Watcher).agUI,
}

// nothing is for protocols whose events are text only.
func (w *Watcher) nothing(string, wire.Value) {}

func (w *Watcher) openAI(_ string, v wire.Value) {
	for _, choice := range at(v, "choices").Items {
		for _, from := range []wire.Value{at(choice, "delta"), at(choice, "message")} {
			for place, one := range at(from, "tool_calls").Items {
				key := strconv.Itoa(place)
				if index := numberOf(at(one, "index")); index != nil {
					key = string(at(one, "index").Text)
				}
				w.begin(key, textOf(one, "id"), textOf(at(one, "function"), "name"))
				w.more(key, textOf(at(one, "function"), "arguments"))
			}
			for _, image := range at(from, "images").Items { // as some gateways send what image models make
				w.fileOf(firstOf(image, "image_url", "image"), event.Image)
			}
		}
		if textOf(choice, "finish_reason") != "" {
			w.endAll()
		}
	}
}

// endAll tells that the input of all tools is complete.
func (w *Watcher) endAll() {
	for key := range w.calls {
		w.end(key, event.Completed, nil)
	}
}

func (w *Watcher) responses(name string, v wire.Value) {
	item := at(v, "item")
	kind := textOf(item, "type")
	id := firstWord(textOf(v, "item_id"), textOf(item, "id"))
	tool, isCall := strings.CutSuffix(kind, "_call")
	switch {
	case name == "response.output_item.added" && isCall:
		w.begin(id, id, firstWord(textOf(item, "name"), tool))
	case name == "response.output_item.done" && isCall:
		w.begin(id, id, firstWord(textOf(item, "name"), tool))
		w.more(id, textOf(item, "arguments"))
		w.end(id, statusOf(firstWord(textOf(item, "status"), event.Completed)), nil)
		if picture := textOf(item, "result"); picture != "" {
			w.file(false, event.Data{Kind: event.Image, Content: fromBase64(picture)})
		}
	case strings.HasSuffix(name, "_call.partial_image"):
		w.file(true, event.Data{Kind: event.Image, Content: fromBase64(textOf(v, "partial_image_b64"))})
	case strings.HasSuffix(name, "_call.in_progress"), strings.HasSuffix(name, "_call.generating"), strings.HasSuffix(name, "_call.searching"),
		strings.HasSuffix(name, "_call.interpreting"):
		stage := name[strings.LastIndexByte(name, '.')+1:]
		w.emit(event.ProgressUpdate, event.Data{Message: strings.TrimSuffix(strings.TrimPrefix(name, "response."), "_call."+stage) + ": " + stage, ID: id})
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
	key := string(at(v, "index").Text)
	block := at(v, "content_block")
	switch name {
	case "content_block_start":
		switch kind := textOf(block, "type"); {
		case strings.HasSuffix(kind, "tool_use"):
			w.begin(key, textOf(block, "id"), textOf(block, "name"))
		case strings.HasSuffix(kind, "tool_result"):
			w.emit(event.Tool, event.Data{Name: strings.TrimSuffix(kind, "_tool_result"), ID: textOf(block, "tool_use_id"), Status: event.Completed, Output: w.raw(at(block, "content"))})
		}
	case "content_block_delta":
		w.more(key, textOf(at(v, "delta"), "partial_json"))
	case "content_block_stop":
		w.end(key, event.Completed, nil)
	case "message":
		for _, one := range at(v, "content").Items {
			if strings.HasSuffix(textOf(one, "type"), "tool_use") {
				w.emit(event.Tool, event.Data{Name: textOf(one, "name"), ID: textOf(one, "id"), Status: event.Completed, Input: w.raw(at(one, "input"))})
			}
		}
	case "message_start", "message_delta", "message_stop", "ping", "error", "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) ollama(_ string, v wire.Value) {
	for _, one := range at(v, "message", "tool_calls").Items {
		w.emit(event.Tool, event.Data{Name: textOf(at(one, "function"), "name"), Status: event.Completed, Input: w.raw(at(one, "function", "arguments"))})
	}
	if status := textOf(v, "status"); status != "" {
		w.emit(event.ProgressUpdate, event.Data{Message: status, Progress: w.percentOf(v)})
	}
}

func (w *Watcher) dify(name string, v wire.Value) {
	if named := textOf(v, "event"); named != "" {
		name = named
	}
	data := at(v, "data")
	switch name {
	case "node_started", "iteration_started", "loop_started":
		w.node(firstText(data, "title", "node_type"), firstText(data, "node_id", "id"), event.Started)
	case "node_finished", "iteration_completed", "loop_completed":
		w.node(firstText(data, "title", "node_type"), firstText(data, "node_id", "id"), statusOf(firstWord(textOf(data, "status"), event.Completed)))
		w.files(data)
	case "agent_thought":
		tool := textOf(v, "tool")
		if tool == "" {
			return
		}
		status := event.Started
		if textOf(v, "observation") != "" {
			status = event.Completed
		}
		w.emit(event.Tool, event.Data{Name: tool, ID: textOf(v, "id"), Status: status, Input: w.jsonOf(textOf(v, "tool_input")), Output: w.jsonOf(textOf(v, "observation"))})
	case "message_file":
		if belongs := textOf(v, "belongs_to"); belongs != "user" {
			w.fileOf(v, "")
		}
	case "workflow_finished":
		w.files(at(data, "outputs"))
		w.files(data)
	case "message", "agent_message", "text_chunk", "reasoning_chunk", "message_end", "message_replace", "error", "ping", "workflow_started", "tts_message", "tts_message_end", "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) coze(name string, v wire.Value) {
	switch kind := textOf(v, "type"); {
	case name == "conversation.message.completed" && kind == "function_call":
		call, _ := wire.Parse([]byte(textOf(v, "content")))
		w.emit(event.Tool, event.Data{Name: firstWord(textOf(call, "name"), "function_call"), ID: textOf(v, "id"), Status: event.Started, Input: w.raw(at(call, "arguments"))})
	case name == "conversation.message.completed" && kind == "tool_response":
		w.emit(event.Tool, event.Data{Name: "tool_response", ID: textOf(v, "id"), Status: event.Completed, Output: w.jsonOf(textOf(v, "content"))})
	case name == "conversation.message.completed" && textOf(v, "content_type") == "object_string":
		parts, _ := wire.Parse([]byte(textOf(v, "content")))
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
		title := textOf(v, "node_title")
		if title != w.stage {
			w.stage = title
			w.node(title, string(at(v, "node_seq_id").Text), event.Started)
		}
		if isTrue(at(v, "node_is_finish")) {
			w.node(title, string(at(v, "node_seq_id").Text), event.Completed)
		}
	case "Error", "Done", "PING", "":
	default:
		w.other(name, v)
	}
}

func (w *Watcher) fastGPT(name string, v wire.Value) {
	tool := at(v, "tool")
	switch name {
	case "flowNodeStatus":
		w.node(firstText(v, "name", "nodeId"), textOf(v, "nodeId"), statusOf(firstWord(textOf(v, "status"), event.Started)))
	case "toolCall":
		w.begin(textOf(tool, "id"), textOf(tool, "id"), firstText(tool, "toolName", "functionName"))
	case "toolParams":
		w.more(textOf(tool, "id"), textOf(tool, "params"))
	case "toolResponse":
		w.end(textOf(tool, "id"), event.Completed, stringJSON(textOf(tool, "response")))
	case "answer", "fastAnswer", "flowResponses", "workflowDuration", "error", "":
		w.openAI(name, v)
	default:
		w.other(name, v)
	}
}

func (w *Watcher) ragflow(name string, v wire.Value) {
	if named := textOf(v, "event"); named != "" {
		name = named
	}
	data := at(v, "data")
	switch name {
	case "node_started":
		w.node(firstText(data, "component_name", "component_id"), textOf(data, "component_id"), event.Started)
	case "node_finished":
		status := event.Completed
		if textOf(data, "error") != "" {
			status = event.Failed
		}
		w.node(firstText(data, "component_name", "component_id"), textOf(data, "component_id"), status)
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

// langMessage tells of the tools that a message of LangChain calls, or the answer of one.
func (w *Watcher) langMessage(message wire.Value) {
	if textOf(message, "type") == "tool" {
		w.emit(event.Tool, event.Data{Name: firstWord(textOf(message, "name"), "tool"), ID: textOf(message, "tool_call_id"), Status: event.Completed, Output: w.raw(at(message, "content"))})
		return
	}
	for _, one := range at(message, "tool_calls").Items {
		if name := textOf(one, "name"); name != "" {
			w.emit(event.Tool, event.Data{Name: name, ID: textOf(one, "id"), Status: event.Started, Input: w.raw(at(one, "args"))})
		}
	}
}

func (w *Watcher) a2a(_ string, v wire.Value) {
	result := at(v, "result")
	for _, within := range []wire.Value{result, at(result, "task"), at(result, "statusUpdate")} {
		status := at(within, "status")
		state := strings.ToLower(strings.TrimPrefix(textOf(status, "state"), "TASK_STATE_"))
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
		for _, part := range at(status, "message", "parts").Items {
			if text := textOf(part, "text"); text != "" {
				said = append(said, text)
			}
		}
		percent := w.percentOf(firstOf(within, "metadata"))
		if (len(said) > 0 || percent != nil) && state != "completed" {
			w.emit(event.ProgressUpdate, event.Data{Message: strings.Join(said, "\n"), Progress: percent})
		}
	}
	for _, within := range []wire.Value{result, at(result, "artifactUpdate"), at(result, "task")} {
		artifacts := append([]wire.Value{at(within, "artifact")}, at(within, "artifacts").Items...)
		for _, artifact := range artifacts {
			for _, part := range at(artifact, "parts").Items {
				w.fileOf(part, "")
			}
		}
	}
}

func (w *Watcher) agUI(name string, v wire.Value) {
	id := textOf(v, "toolCallId")
	switch name {
	case "STEP_STARTED":
		w.node(textOf(v, "stepName"), "", event.Started)
	case "STEP_FINISHED":
		w.node(textOf(v, "stepName"), "", event.Completed)
	case "TOOL_CALL_START":
		w.begin(id, id, textOf(v, "toolCallName"))
	case "TOOL_CALL_CHUNK":
		w.begin(id, id, textOf(v, "toolCallName"))
		w.more(id, textOf(v, "delta"))
	case "TOOL_CALL_ARGS":
		w.more(id, textOf(v, "delta"))
	case "TOOL_CALL_RESULT":
		w.end(id, event.Completed, w.jsonOf(textOf(v, "content")))
	case "ACTIVITY_SNAPSHOT":
		content := at(v, "content")
		w.emit(event.ProgressUpdate, event.Data{Message: firstWord(textOf(content, "message"), textOf(v, "activityType")), Progress: w.percentOf(content), ID: textOf(v, "messageId")})
		w.preview(content)
	case "ACTIVITY_DELTA":
		for _, change := range at(v, "patch").Items {
			if path := textOf(change, "path"); hasAny(path, "percent", "progress") {
				w.emit(event.ProgressUpdate, event.Data{Message: textOf(v, "activityType"), Progress: numberOf(at(change, "value")), ID: textOf(v, "messageId")})
			}
		}
	case "CUSTOM":
		w.custom(firstWord(textOf(v, "name"), "custom"), at(v, "value"))
	case "RUN_STARTED", "RUN_FINISHED", "RUN_ERROR", "TOOL_CALL_END", "":
	default:
		if !hasAny(name, "TEXT_MESSAGE_", "REASONING_", "THINKING_") {
			w.other(name, v)
		}
	}
}
