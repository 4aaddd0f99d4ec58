// Package people implements the pages and endpoints of accounts, projects, tokens, links to reports, and the
// audit, and the endpoints for people's verdicts on two variants' answers.
package people

import (
	"context"
	"io"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/handlers/access"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/blob"
	"wending/jobs/identity"
	"wending/views/paths"
	"wending/views/ui"
)

// Config holds the dependencies of the pages and endpoints.
type Config struct {
	Store *db.Store
	// Files contains the files that agents produced.
	Files blob.Store
	Guard *access.Guard
	Audit people.AuditLog
	// Passkeys handles this site's passkeys; nil means that the site cannot have any.
	Passkeys *access.Passkeys
	// HasPasswords reports that accounts are created here, and not by a provider or directory.
	HasPasswords bool
	// PublicURL is the public address of this site; if it is empty, the address of the request is used.
	PublicURL string
	// AuditDays is how many days audit entries are kept; 0 means forever.
	AuditDays int
	Version   string
	Failed    rest.Failed
	// SensitivePatterns apply to projects without a list of their own.
	SensitivePatterns []string
	// PrepareReplay prepares the page of a link to a replay: of a unit or, if unitID is nil, of all runs of the question
	// with the given number. write sends the page.
	PrepareReplay func(ctx context.Context, task db.Task, number int, unitID *int64,
		link string, mayComment bool) (write func(context.Context, io.Writer) error, err error)
	// Choose returns the ids of the questions that the filters in a request's query select, as on a report's page; nil
	// means that there are no filters.
	Choose func(c echo.Context, task db.Task) (map[int64]bool, error)
	// SendFile sends a file of a task, or its thumbnail, if the file belongs to what a link shows.
	SendFile func(c echo.Context, taskID, id uuid.UUID, shown engine.Shown, isThumbnail bool) error
}

type handler struct {
	Config
	people people.People
	quotas people.Quotas
	// identity implements changes to the data that people reads.
	identity identity.Service
}

func newHandler(config Config) *handler {
	return &handler{config, people.New(config.Store), people.NewQuotas(config.Store), identity.New(config.Store)}
}

// RegisterPages adds the pages.
func RegisterPages(group *echo.Group, config Config) {
	h := newHandler(config)
	group.GET(paths.Account, h.showAccount)
	group.GET(paths.OwnPassword, h.showPassword)
	group.POST(paths.OwnPassword, h.changePassword)
	group.GET(paths.OwnPasskeys, h.showPasskeys)
	group.POST(paths.Account+"/second", h.setSecond)
	group.POST(paths.Account+"/passkeys/:key/remove", h.removePasskey)
	group.POST(paths.Account+"/sessions/:session/end", h.endSession)
	group.POST(paths.Account+"/sessions/end", h.endSessions)
	group.GET(paths.Users, h.listUsers)
	group.POST(paths.Users, h.addUser)
	group.GET(paths.Users+"/:user", h.showUser)
	group.POST(paths.Users+"/:user", h.applyUser)
	group.POST(paths.Users+"/:user/sessions", h.endSessionsOf)
	group.GET(paths.Audit, h.showAudit)
	group.GET(paths.Projects, h.listProjects)
	group.POST(paths.Projects, h.addProject)
	group.GET(paths.Projects+"/:id", h.showProject)
	group.POST(paths.Projects+"/:id", h.changeProject)
	group.POST(paths.Projects+"/:id/settings", h.changeSettings)
	group.POST(paths.Projects+"/:id/members", h.setMember)
	group.POST(paths.Projects+"/:id/members/:user/remove", h.removeMember)
	group.POST(paths.Projects+"/:id/tokens", h.addToken)
	group.POST(paths.Projects+"/:id/tokens/:token/revoke", h.revokeToken)
	group.GET("/tasks/:taskId/shares", h.listShares)
	group.POST("/tasks/:taskId/shares", h.addShare)
	group.POST("/tasks/:taskId/shares/:share/revoke", h.revokeShare)
	group.GET(paths.Shared+"/:secret", h.showShared)
	group.GET(paths.Shared+"/:secret/files/:assetId", h.sendShared(false))
	group.GET(paths.Shared+"/:secret/files/:assetId/thumbnail", h.sendShared(true))
	group.GET(paths.Shared+"/:secret/comments", h.showSharedComments)
	group.POST(paths.Shared+"/:secret/comments", h.addComment)
	group.GET("/tasks/:taskId/comments", h.listComments)
	group.POST("/tasks/:taskId/comments/:comment/done", h.finishComment)
	group.POST("/tasks/:taskId/comments/:comment/delete", h.removeComment)
	group.POST(paths.Views, h.addView)
	group.POST(paths.Views+"/:id", h.changeView)
	group.POST(paths.Views+"/:id/remove", h.removeView)
}

// frame returns the frame of a page.
func (h *handler) frame(c echo.Context, title string, crumbs ...ui.Crumb) ui.Frame {
	frame := pages.Frame(c, h.Version, title, ui.SectionSystem, crumbs...)
	frame.Styles = []string{"form.css", "people.css"}
	return frame
}

// read returns a request's form, which has no file.
func read(c echo.Context) (*form.Upload, error) {
	return form.ReadText(c.Response(), c.Request())
}

// pathID returns the id in a path's parameter; if it is malformed, the error says that no such object exists.
func pathID(c echo.Context, name string, kind db.Kind) (uuid.UUID, error) {
	return request.ID(c.Param(name), kind)
}
