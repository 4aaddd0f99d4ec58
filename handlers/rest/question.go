package rest

import (
	"net/url"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/handlers/request"
)

// QuestionPath holds the path parameters that identify a question of a task.
type QuestionPath struct {
	TaskID     string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	QuestionID string `path:"question_id" doc:"Id of the question, percent-encoded as one segment" example:"q1"`
}

// Resolve implements huma.Resolver: a question's id may contain any character, including slashes and percent signs, and
// must be decoded exactly once.
func (p *QuestionPath) Resolve(ctx huma.Context) []error {
	_, tail, _ := strings.Cut(humaecho.Unwrap(ctx).Request().URL.EscapedPath(), "/items/")
	id, err := url.PathUnescape(tail[:max(0, strings.LastIndex(tail, "/"))])
	if err != nil {
		return []error{NewFailure(ctx.Context(), request.NewFault(request.CodeRequestInvalid).WithCause(err))}
	}
	p.QuestionID = id
	return nil
}
