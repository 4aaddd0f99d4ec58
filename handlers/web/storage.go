package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/upkeep"
	"wending/handlers/pages"
	"wending/jobs/blob"
	"wending/views/paths"
	"wending/views/system"
	"wending/views/ui"
)

// StorageConfig holds the dependencies of the page about storage.
type StorageConfig struct {
	Store *db.Store
	Files *blob.Disk
	// Space measures the disk on which data is stored; nil means that the page does not show it.
	Space func() (blob.Space, error)
	// HistoryDays is how many days replaced runs are kept, and UploadDays is how many days files are kept after their task
	// has ended; 0 means forever.
	HistoryDays, UploadDays int
	// NextBackup returns the time of the first scheduled backup after a given time; nil if no backups are scheduled.
	NextBackup func(after time.Time) time.Time
	Version    string
}

type storagePage struct {
	StorageConfig
	mu sync.Mutex
	// measured is the last measurement, which is reused for storageIsFresh, because measuring reads every run.
	measured system.Storage
}

// storageIsFresh is how long a measurement is reused.
const storageIsFresh = time.Minute

// The maximum numbers of tables and of tasks that the page lists, largest first.
const (
	tablesShown = 8
	tasksShown  = 50
)

// RegisterStorage registers the page that shows how much storage the database, tasks and files use.
func RegisterStorage(group *echo.Group, config StorageConfig) {
	h := &storagePage{StorageConfig: config}
	group.GET(paths.Storage, h.show)
}

func (h *storagePage) show(c echo.Context) error {
	measured, err := h.measure(c.Request().Context())
	if err != nil {
		return err
	}
	if h.Space != nil {
		measured.Space, _ = h.Space() // an error is logged elsewhere, and the page then shows no disk space
	}
	if h.NextBackup != nil {
		measured.NextBackupAt = h.NextBackup(time.Now())
	}
	frame := pages.Frame(c, h.Version, pages.Locale(c).Text("storage.title"), ui.SectionSystem)
	frame.Styles = []string{"list.css"}
	return pages.Render(c, http.StatusOK, system.StoragePage(frame, measured))
}

// measure returns the sizes of tables, tasks and files. Only one measurement runs at a time, and its result is reused
// for a while.
func (h *storagePage) measure(ctx context.Context) (system.Storage, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if time.Since(h.measured.MeasuredAt) < storageIsFresh {
		return h.measured, nil
	}
	usage, err := upkeep.NewStorage(h.Store).Measure(ctx, tablesShown, tasksShown)
	if err != nil {
		return system.Storage{}, err
	}
	files, err := h.Files.Usage(ctx)
	if err != nil {
		return system.Storage{}, err
	}
	h.measured = system.Storage{SpaceUsage: usage, Files: files, MeasuredAt: time.Now(), HistoryDays: h.HistoryDays,
		UploadDays: h.UploadDays}
	return h.measured, nil
}
