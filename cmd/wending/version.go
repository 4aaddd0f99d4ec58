package main

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
)

// version is set by release builds with -ldflags "-X main.version=…".
var version string

type versionCommand struct{}

// Run prints the program's version.
func (versionCommand) Run(stdout io.Writer) error {
	_, err := fmt.Fprintf(stdout, "wending %s %s %s/%s\n", buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

// buildVersion returns the release's version or, for other builds, the revision that they were built from.
func buildVersion() string {
	if version != "" {
		return version
	}
	info, isThere := debug.ReadBuildInfo()
	if !isThere {
		return "unknown"
	}
	settings := map[string]string{}
	for _, setting := range info.Settings {
		settings[setting.Key] = setting.Value
	}
	revision := settings["vcs.revision"]
	if revision == "" {
		return "dev"
	}
	revision = revision[:min(12, len(revision))]
	if settings["vcs.modified"] == "true" {
		revision += "+changes"
	}
	return revision
}

// newBuildInfo returns a metric that is always 1 and carries the version.
func newBuildInfo() prometheus.Collector {
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "wending_build_info", Help: "Always 1; its labels describe the program.",
		ConstLabels: prometheus.Labels{"version": buildVersion(), "goversion": runtime.Version()},
	})
	info.Set(1)
	return info
}
