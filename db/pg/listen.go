package pg

import (
	"context"
	"fmt"
	"time"

	"github.com/lib/pq"
)

// Listen calls notified with the payload of every notification on a channel until ctx ends. It calls notified with an
// empty payload when listening has begun and after every reconnect, because notifications may have been missed. It
// keeps its own connection, so url must point to the server itself, not to a pooler.
func Listen(ctx context.Context, url, channel string, notified func(payload string)) error {
	if _, err := readURL(url); err != nil {
		return err
	}
	listener := pq.NewListener(url, time.Second, 10*time.Second, nil)
	defer listener.Close() //nolint:errcheck // nothing to flush
	// Without a connection, Listen waits for one.
	listening := make(chan error, 1)
	go func() { listening <- listener.Listen(channel) }()
	probe := time.NewTicker(30 * time.Second)
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-listening:
			if err != nil {
				return fmt.Errorf("listen on %s: %w", channel, err)
			}
			listening = nil
			notified("")
		case notification := <-listener.Notify:
			payload := ""
			if notification != nil { // nil after a reconnect
				payload = notification.Extra
			}
			notified(payload)
		case <-probe.C:
			go func() { _ = listener.Ping() }() // detects and replaces a dead connection
		}
	}
}
