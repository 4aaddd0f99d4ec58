package replay

import (
	"context"
	"io"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/views/replay"
	"wending/views/text"
)

// Shared shows replays and files to people who have a share link.
type Shared struct {
	calls *handler
	files *filesHandler
}

// NewShared returns a Shared with the dependencies of the replays and of the files.
func NewShared(calls Config, files FilesConfig) Shared {
	return Shared{&handler{calls}, &filesHandler{files}}
}

// Prepare reads the calls of a unit or, if unitID is nil, of the current runs of the question with the given number.
// write writes them as a page. link is the page's address; mayComment adds a link to the comments.
func (s Shared) Prepare(ctx context.Context, task db.Task, number int, unitID *int64,
	link string, mayComment bool) (write func(context.Context, io.Writer) error, err error) {
	view := replay.View{Task: task, Number: number}
	if unitID != nil {
		unit, err := s.calls.journal().Unit(ctx, task.ID, *unitID)
		if err != nil {
			return nil, err
		}
		if view, err = s.calls.viewOf(ctx, task, unit); err != nil {
			return nil, err
		}
		return replay.SharedPage(view, link, mayComment).Render, nil
	}
	runs, err := s.calls.journal().OutcomesBeside(ctx, task.ID, number)
	if err != nil {
		return nil, err
	}
	runs = runs[:min(len(runs), maxTracks)]
	if err := s.calls.addBeside(ctx, text.LocaleOf(ctx), &view, runs); err != nil {
		return nil, err
	}
	return replay.SharedPage(view, link, mayComment).Render, nil
}

// Send sends a file of a task, or its thumbnail, if the file belongs to what a link shows.
func (s Shared) Send(c echo.Context, taskID, id uuid.UUID, shown engine.Shown, isThumbnail bool) error {
	ctx := c.Request().Context()
	one, err := s.files.assets().GetShown(ctx, taskID, id, shown)
	if err != nil {
		return err
	}
	send, err := s.files.open(ctx, one, isThumbnail)
	if err != nil {
		return err
	}
	send(c)
	return nil
}
