package main

import (
	"context"
	"path/filepath"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"wending/jobs/blob"
)

// space returns the free and total space of the disk on which a process with pages stores data. If there are several
// disks, it is the one with the least free space.
func (s *Settings) space() (blob.Space, error) {
	folders := []string{s.DataDir}
	for _, folder := range s.folders() {
		folders = append(folders, folder)
	}
	return blob.SpaceOf(append(folders, filepath.Join(s.DataDir, "postgres"))...)
}

// watchDiskEvery is how often the disk is measured.
const watchDiskEvery = time.Minute

// watchDisk warns in the log when the disk becomes nearly full or full, and when it has space again, until ctx ends.
func (p *program) watchDisk(ctx context.Context) {
	tick := time.NewTicker(watchDiskEvery)
	defer tick.Stop()
	for last := (blob.Space{}); ; {
		if now, err := p.settings.space(); err != nil {
			p.log.WarnContext(ctx, "disk not measured, will retry", "error", err)
		} else {
			p.logSpace(ctx, last, now)
			last = now
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// logSpace logs a change of the disk's state.
func (p *program) logSpace(ctx context.Context, last, now blob.Space) {
	values := []any{"data_dir", p.settings.DataDir, "used_percent", now.Percent(), "free_mib", now.Free >> 20}
	switch {
	case now.IsFull() && !last.IsFull():
		p.log.ErrorContext(ctx, "the disk is full, refusing new tasks and launches until it has room", values...)
	case now.IsNearlyFull() && !last.IsNearlyFull():
		p.log.WarnContext(ctx, "the disk is nearly full", values...)
	case !now.IsFull() && !now.IsNearlyFull() && (last.IsFull() || last.IsNearlyFull()):
		p.log.InfoContext(ctx, "the disk has room again", values...)
	}
}

// registerDisk adds the metrics of the disk.
func (s *Settings) registerDisk(registry prometheus.Registerer) {
	for name, read := range map[string]func(blob.Space) uint64{
		"wending_disk_free_bytes":  func(space blob.Space) uint64 { return space.Free },
		"wending_disk_total_bytes": func(space blob.Space) uint64 { return space.Total },
	} {
		registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: name, Help: "Room on the disk of DATA_DIR, or on the fullest if its folders are on several.",
		}, func() float64 {
			space, _ := s.space() // an error is logged elsewhere
			return float64(read(space))
		}))
	}
}
