package db

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"
)

// changesChannel carries the id of every task whose launch began, stopped or ended.
const changesChannel = "wending_changes"

// notify tells listeners, when the transaction commits, that the task changed.
func notify(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) error {
	_, err := tx.ExecContext(ctx, `SELECT pg_notify($1, $2)`, changesChannel, taskID.String())
	return classify("tell of the change", err)
}

// ListenForChanges calls changed with the id of every task whose state changes, whatever process changes it,
// until ctx ends; with uuid.Nil when listening has begun, and after the connection was lost and made again:
// changes may have been missed. It holds one connection of its own, so url must lead to the server itself and not to a pooler.
func ListenForChanges(ctx context.Context, url string, changed func(taskID uuid.UUID)) error {
	if _, err := readURL(url); err != nil {
		return err
	}
	listener := pq.NewListener(url, time.Second, 10*time.Second, nil)
	defer listener.Close() //nolint:errcheck // done with it
	// Without a connection Listen waits for one.
	listening := make(chan error, 1)
	go func() { listening <- listener.Listen(changesChannel) }()
	probe := time.NewTicker(30 * time.Second)
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-listening:
			if err != nil {
				return fmt.Errorf("listen for changes: %w", err)
			}
			listening = nil
			changed(uuid.Nil)
		case notification := <-listener.Notify:
			id := uuid.Nil
			if notification != nil {
				id, _ = uuid.Parse(notification.Extra)
			}
			changed(id)
		case <-probe.C:
			go func() { _ = listener.Ping() }() // a connection that died without a word is made again
		}
	}
}
