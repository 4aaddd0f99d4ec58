package people

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/identity"
	"wending/views/paths"
	"wending/views/system"
	"wending/views/ui"
)

// commented returns the link whose secret is in the path, if its readers may comment, and the place to comment on: the
// question with the given number or, if number is empty or 0, the whole task.
func (h *handler) commented(c echo.Context, number string) (place system.SharedComments, share people.Share,
	task db.Task, err error) {
	if share, task, err = h.shared(c); err != nil {
		return place, share, task, err
	}
	gone := request.NewFault(request.CodeNotFound).WithMessage("share.gone")
	if share.Comments == people.CommentsOff {
		return place, share, task, gone
	}
	place = system.SharedComments{Link: paths.Shared + "/" + c.Param("secret"), Name: task.Name,
		IsShown: share.Comments == people.CommentsReaders}
	if number == "" || number == "0" {
		return place, share, task, nil
	}
	if place.Number, err = strconv.Atoi(number); err != nil || place.Number < 1 || place.Number > task.TotalItems {
		return place, share, task, gone
	}
	item, question, err := h.people.ItemOf(c.Request().Context(), task.ID, place.Number)
	if err != nil {
		return place, share, task, err
	}
	isHidden := share.ItemIDs != nil && !slices.Contains(share.ItemIDs, item) ||
		share.Number != nil && *share.Number != place.Number
	if isHidden {
		return place, share, task, gone
	}
	place.ItemID, place.Question = &item, question
	return place, share, task, nil
}

// showSharedComments shows a reader of a link the form for a comment on a question or the task and, if the link allows
// it, other readers' comments on the same place.
func (h *handler) showSharedComments(c echo.Context) error {
	place, share, _, err := h.commented(c, c.QueryParam("number"))
	if err != nil {
		return err
	}
	place.IsSent = c.QueryParam("done") == "commented"
	return h.renderSharedComments(c, http.StatusOK, share, place)
}

func (h *handler) renderSharedComments(c echo.Context, status int, share people.Share,
	place system.SharedComments) error {
	if place.IsShown {
		var err error
		if place.List, err = review.New(h.Store).CommentsAt(c.Request().Context(), share.ID, place.ItemID); err != nil {
			return err
		}
	}
	header := c.Response().Header()
	header.Set(echo.HeaderContentSecurityPolicy, strings.Replace(ui.DocumentPolicy(), "form-action 'none'",
		"form-action 'self'", 1))
	header.Set(echo.HeaderXContentTypeOptions, "nosniff")
	return pages.Render(c, status, system.SharedCommentsPage(place))
}

// addComment stores a comment by a reader of a link.
func (h *handler) addComment(c echo.Context) error {
	// Anyone who knows the secret in the address may comment. Another site's page that knows it must not comment through a
	// reader's browser.
	if site := c.Request().Header.Get("Sec-Fetch-Site"); site != "" && site != "same-origin" {
		return request.NewFault(request.CodeForbidden)
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	place, share, task, err := h.commented(c, submitted.Value("number"))
	if err != nil {
		return err
	}
	place.Values, place.Errors = submitted.Values, map[string]string{}
	checked, err := identity.Comment{Name: request.StorableText(submitted.Values["name"]),
		Text: request.StorableText(submitted.Values["comment"])}.Checked()
	if err != nil {
		faults, err := form.PersonFaults(err, nil)
		if err != nil {
			return err
		}
		place.Errors = form.Messages(pages.Locale(c), faults)
		return h.renderSharedComments(c, http.StatusUnprocessableEntity, share, place)
	}
	err = review.New(h.Store).AddComment(c.Request().Context(), review.NewComment{ShareID: share.ID, TaskID: task.ID,
		ItemID: place.ItemID, Author: checked.Name, Body: checked.Text, Address: c.RealIP()})
	switch {
	case errors.Is(err, review.ErrCommentsFull):
		place.Errors["comment"] = pages.Locale(c).Text("comment.full")
		return h.renderSharedComments(c, http.StatusTooManyRequests, share, place)
	case errors.Is(err, review.ErrCommentsFast):
		place.Errors["comment"] = pages.Locale(c).Text("comment.fast")
		return h.renderSharedComments(c, http.StatusTooManyRequests, share, place)
	case err != nil:
		return err
	}
	query := url.Values{"done": {"commented"}}
	if place.Number > 0 {
		query.Set("number", strconv.Itoa(place.Number))
	}
	return c.Redirect(http.StatusSeeOther, paths.WithQuery(place.Link+"/comments", query))
}

// listComments shows a project's members the comments that readers of links have made on a task.
func (h *handler) listComments(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := request.Task(ctx, h.Store, c.Param("taskId"))
	if err != nil {
		return err
	}
	window, err := pages.Window(c)
	if err != nil {
		return err
	}
	found, total, err := review.New(h.Store).Comments(ctx, task.ID, window)
	if err != nil {
		return err
	}
	pager := pages.NewPager(paths.Comments(task.ID), nil, window, total)
	if redirected, err := pages.RedirectPastEnd(c, pager); redirected {
		return err
	}
	title := pages.Locale(c).Text("comment.title")
	frame := h.frame(c, title, pages.TaskCrumbs(c, task, ui.Crumb{Text: title})...)
	frame.Section, frame.Here = ui.SectionTasks, paths.Comments(task.ID)
	return pages.Render(c, http.StatusOK, system.CommentsPage(frame, system.Comments{TaskID: task.ID, List: found,
		Pager: pager}))
}

// onComment calls act with a comment of a task, named by the ids in a path, and records the change in the audit log.
func (h *handler) onComment(ctx context.Context, taskID, commentID string,
	act func(comments review.Reviews, task db.Task, id int64) error) (db.Task, error) {
	task, err := request.Task(ctx, h.Store, taskID)
	if err != nil {
		return task, err
	}
	id, err := strconv.ParseInt(commentID, 10, 64)
	if err != nil {
		return task, &db.NotFoundError{Kind: review.KindComment}
	}
	request.Made(ctx, task.ID.String(), task.Name)
	request.Changed(ctx, nil, map[string]any{"comment": id})
	return task, act(review.New(h.Store), task, id)
}

// finish marks a comment as done or, if isDone is false, as open again. It returns the comment's task.
func (h *handler) finish(ctx context.Context, taskID, commentID string, isDone bool) (db.Task, error) {
	return h.onComment(ctx, taskID, commentID, func(comments review.Reviews, task db.Task, id int64) error {
		return comments.FinishComment(ctx, task.ID, id, isDone, request.From(ctx).Actor.Who())
	})
}

// remove deletes a comment, and returns its task.
func (h *handler) remove(ctx context.Context, taskID, commentID string) (db.Task, error) {
	return h.onComment(ctx, taskID, commentID, func(comments review.Reviews, task db.Task, id int64) error {
		return comments.RemoveComment(ctx, task.ID, id)
	})
}

func (h *handler) finishComment(c echo.Context) error {
	submitted, err := read(c)
	if err != nil {
		return err
	}
	task, err := h.finish(c.Request().Context(), c.Param("taskId"), c.Param("comment"),
		submitted.Value("is_done") != "false")
	if err != nil {
		return err
	}
	return pages.Done(c, paths.Comments(task.ID), "saved")
}

func (h *handler) removeComment(c echo.Context) error {
	task, err := h.remove(c.Request().Context(), c.Param("taskId"), c.Param("comment"))
	if err != nil {
		return err
	}
	return pages.Done(c, paths.Comments(task.ID), "removed")
}

const commentsPath = paths.API + "/evaluation-tasks/{task_id}/comments"

func (h endpoints) registerComments(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: commentsPath, ID: "list-comments", Tag: tag,
		Summary: "List the comments of readers of a task's links, open ones first, then the newest first",
		Faults:  []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.listComments)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: commentsPath + "/{comment_id}", ID: "finish-comment", Tag: tag,
		Status:  http.StatusNoContent,
		Summary: "Mark a reader's comment as done, or open it again",
		Faults:  []string{request.CodeTaskNotFound, request.CodeNotFound},
	}, h.finishComment)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: commentsPath + "/{comment_id}", ID: "delete-comment", Tag: tag,
		Status: http.StatusNoContent, Summary: "Delete a reader's comment",
		Faults: []string{request.CodeTaskNotFound, request.CodeNotFound},
	}, h.deleteComment)
}

type commentsInput struct {
	rest.PageQuery
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

func (h endpoints) listComments(ctx context.Context, input *commentsInput) (*list[Comment], error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	found, total, err := review.New(h.Store).Comments(ctx, task.ID, input.Window())
	comments := make([]Comment, len(found))
	for n, one := range found {
		comments[n] = newComment(one)
	}
	return newList(comments, input.Window(), total), err
}

// CommentPath holds the path parameters with the ids of a comment and its task.
type CommentPath struct {
	TaskID    string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	CommentID string `path:"comment_id" doc:"Id of the comment" example:"17"`
}

type finishInput struct {
	CommentPath
	Body struct {
		IsDone bool `json:"is_done" doc:"Whether the comment is done" example:"true"`
	}
}

func (h endpoints) finishComment(ctx context.Context, input *finishInput) (*struct{}, error) {
	_, err := h.finish(ctx, input.TaskID, input.CommentID, input.Body.IsDone)
	return nil, err
}

func (h endpoints) deleteComment(ctx context.Context, input *CommentPath) (*struct{}, error) {
	_, err := h.remove(ctx, input.TaskID, input.CommentID)
	return nil, err
}
