package db

import (
	"context"
	"time"
)

// reconcileLock is the key of the advisory lock that elects the process that reconciles.
const reconcileLock = 0x77656e64696e67 // "wending"

// leadFor is how long a leader that has disappeared keeps others from leading, so its round should take no
// longer. A leader that takes longer continues without the lock: two at once do no harm.
const leadFor = 2 * time.Second

// AsLeader runs work unless another process is running it. It returns whether work ran, and its error.
func (s *Store) AsLeader(ctx context.Context, work func() error) (led bool, err error) {
	return s.db.WithLock(ctx, reconcileLock, leadFor, work)
}
