// Package storage has the page that says what takes space.
package storage

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/storage"
	"wending/handlers/pages"
	"wending/jobs/blob"
	"wending/views/paths"
	"wending/views/system"
	"wending/views/ui"
)

// Config is what the page needs.
type Config struct {
	Store *db.Store
	Files *blob.Disk
	// HistoryDays and UploadDays are how long replaced runs and files are kept; 0 means for good.
	HistoryDays, UploadDays int
	Version                 string
}

type handler struct {
	Config
	mu sync.Mutex
	// measured is the last measurement, which is shown for a while: it reads every run.
	measured system.Storage
}

// fresh is how long a measurement is shown.
const fresh = time.Minute

// So many tables and tasks are listed.
const (
	tablesShown = 8
	tasksShown  = 50
)

// Register adds the route.
func Register(group *echo.Group, config Config) {
	h := &handler{Config: config}
	group.Match([]string{http.MethodGet, http.MethodHead}, paths.Storage, h.show)
}

func (h *handler) show(c echo.Context) error {
	measured, err := h.measure(c.Request().Context())
	if err != nil {
		return err
	}
	frame := pages.Frame(c, h.Version, pages.Locale(c).Text("storage.title"), ui.SectionWorkers)
	frame.Styles = []string{"list.css"}
	return pages.Render(c, http.StatusOK, system.StoragePage(frame, measured))
}

// measure measures, once at a time.
func (h *handler) measure(ctx context.Context) (system.Storage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.measured.MeasuredAt) < fresh {
		return h.measured, nil
	}
	usage, err := storage.Measure(ctx, h.Store, tablesShown, tasksShown)
	if err != nil {
		return system.Storage{}, err
	}
	files, err := h.Files.Usage(ctx)
	if err != nil {
		return system.Storage{}, err
	}
	h.measured = system.Storage{Usage: usage, Files: files, MeasuredAt: time.Now(), HistoryDays: h.HistoryDays, UploadDays: h.UploadDays}
	return h.measured, nil
}
