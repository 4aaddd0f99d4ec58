package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"wending/views/paths"
)

type healthcheckCommand struct {
	URL string `name:"url" help:"Address to check; default: /readyz at LISTEN_ADDR, or at METRICS_ADDR if that is set."`
}

// Run checks the health of a process on this machine.
func (h healthcheckCommand) Run(ctx context.Context, s *Settings) error {
	client := http.DefaultClient
	if h.URL == "" {
		scheme, address := "http", s.ListenAddr
		if s.MetricsAddr != "" {
			address = s.MetricsAddr
		} else if s.TLSCert != "" {
			scheme = "https"
			own, err := ownCertificate(s.TLSCert, s.TLSKey)
			if err != nil {
				return err
			}
			client = &http.Client{Transport: &http.Transport{TLSClientConfig: own}}
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("%q is not a valid host:port", address)
		}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1"
		}
		h.URL = scheme + "://" + net.JoinHostPort(host, port) + paths.Ready
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // not read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s", h.URL, response.Status)
	}
	return nil
}

// ownCertificate returns a TLS configuration that accepts this installation's certificate and no other. The
// certificate's name is the site's, not this machine's address, so names are not compared.
func ownCertificate(cert, key string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("TLS_CERT_FILE: %w", err)
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection compares the whole certificate
		VerifyConnection: func(state tls.ConnectionState) error {
			if !bytes.Equal(state.PeerCertificates[0].Raw, pair.Certificate[0]) {
				return errors.New("the server has another certificate than TLS_CERT_FILE; restart it after a renewal")
			}
			return nil
		},
	}, nil
}
