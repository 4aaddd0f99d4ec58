package access

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"time"

	"wending/handlers/request"
	"wending/views/paths"
)

// begun is the state of a flow that begins in one request and ends in another. The browser keeps it, sealed, so that
// unfinished flows need no storage here and no visitor can block others.
type begun struct {
	// Until is the time by which the flow must have ended, by the database's clock.
	Until  time.Time       `json:"until"`
	Detail json.RawMessage `json:"detail"`
}

// seal returns the sealed state of a flow that begins now.
func (h *handler) seal(ctx context.Context, kind string, detail any, lasts time.Duration) (string, error) {
	text, err := json.Marshal(detail)
	if err != nil {
		return "", err
	}
	now, err := h.People.Now(ctx)
	if err != nil {
		return "", err
	}
	sealed, err := h.Sealer.Seal(begun{now.Add(lasts), text}, kind)
	return base64.RawURLEncoding.EncodeToString(sealed), err
}

// open decodes kept, which seal returned for the same kind, into detail. If kept was not sealed here or has expired,
// the fault asks the user to start over.
func (h *handler) open(ctx context.Context, kind, kept string, detail any) error {
	again := request.NewFault(request.CodeForbidden).WithMessage("login.provider.again")
	sealed, err := base64.RawURLEncoding.DecodeString(kept)
	if err != nil || len(sealed) == 0 {
		return again
	}
	var found begun
	if err := h.Sealer.Open(sealed, kind, &found); err != nil {
		return again.WithCause(err)
	}
	now, err := h.People.Now(ctx)
	if err != nil {
		return err
	}
	if now.After(found.Until) {
		return again
	}
	return json.Unmarshal(found.Detail, detail)
}

// maxNext is the maximum length, in bytes, of the path to which a sign-in redirects; cookies and headers contain the
// path.
const maxNext = 1000

// nextOf returns the path to which a sign-in redirects: text if it is on this site, or else the list of tasks.
func nextOf(text string) string {
	if len(text) > maxNext {
		return paths.Tasks
	}
	return request.LocalPath(text, paths.Tasks)
}
