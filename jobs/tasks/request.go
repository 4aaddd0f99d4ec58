package tasks

import (
	"time"

	"wending/db"
	"wending/jobs/prompt"
	"wending/jobs/protocol"
)

// KnownNames are the names of values that every row has.
func KnownNames() []string {
	return []string{"question", "standard_answer", "question_id", "system_prompt", "user_context"}
}

// Values are what a row of the dataset puts into templates, by their names. names are the dataset's further columns.
func Values(item db.Item, names []string) map[string]string {
	values := map[string]string{}
	for n, name := range names {
		if n < len(item.Variables) {
			values[name] = item.Variables[n]
		}
	}
	values["question"], values["standard_answer"], values["question_id"] = item.Question, item.StandardAnswer, item.QuestionID
	values["system_prompt"], values["user_context"] = TextOf(item.SystemPrompt), TextOf(item.UserContext)
	return values
}

// Request is the request for a question of one of the task's variants, to its target with these secrets. The caller adds
// the key of the call.
func Request(task db.Task, variant db.Variant, secrets Target, item db.Item) protocol.Request {
	target, values := task.Targets[variant.Target-1], Values(item, task.VariableNames)
	request := protocol.Request{
		Protocol: target.Protocol, URL: secrets.URL, Headers: secrets.Headers, Template: secrets.Template, ExtraPayload: secrets.Payload,
		Question: item.Question, StandardAnswer: item.StandardAnswer, SystemPrompt: item.SystemPrompt, UserContext: item.UserContext,
		Variables: values, Stream: task.UseStream, Timeout: time.Duration(task.TimeoutSeconds) * time.Second,
	}
	if target.Kind == db.TargetModel {
		request.Model = TextOf(target.Model)
	}
	if system := TextOf(variant.SystemTemplate); system != "" {
		rendered := prompt.Render(system, values)
		request.SystemPrompt = &rendered
	}
	if user := TextOf(variant.UserTemplate); user != "" {
		request.Question = prompt.Render(user, values)
		if protocol, _ := protocol.Of(target.Protocol); !protocol.NamesContext() {
			request.UserContext = nil // the template says where it stands
		}
	}
	return request
}

// TextOf is the text that Given was given.
func TextOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
