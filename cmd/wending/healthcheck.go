package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"
)

type healthcheckCommand struct {
	URL string `name:"url" help:"Address to check; default: /healthz at LISTEN_ADDR, or at METRICS_ADDR if that is set."`
}

// Run checks the health of a process on this machine.
func (h healthcheckCommand) Run(ctx context.Context, s *Settings) error {
	if h.URL == "" {
		address := s.ListenAddr
		if s.MetricsAddr != "" {
			address = s.MetricsAddr
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("%q is not a valid host:port", address)
		}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1"
		}
		h.URL = "http://" + net.JoinHostPort(host, port) + "/healthz"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // not read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", h.URL, response.Status)
	}
	return nil
}
