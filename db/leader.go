package db

import (
	"context"
	"strconv"
	"time"

	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// reconcileLock is the key of the advisory lock that elects the process that reconciles.
const reconcileLock = 0x77656e64696e67 // "wending"

// leadFor is how long a leader that has disappeared keeps others from leading, so its round should take no
// longer. A leader that takes longer continues without the lock: two at once do no harm.
const leadFor = 2 * time.Second

// AsLeader runs work unless another process is running it, under a lock that ends with the transaction (so that
// it works behind a pooler too). It returns whether work ran, and its error.
func (s *Store) AsLeader(ctx context.Context, work func() error) (led bool, err error) {
	const tryLock = `
		SELECT pg_try_advisory_xact_lock($1)
		FROM set_config('idle_in_transaction_session_timeout', $2, true)`
	var failed error
	err = s.db.InBareTx(ctx, "lead", func(tx *sqlx.Tx) error {
		if err := tx.GetContext(ctx, &led, tryLock, int64(reconcileLock), strconv.FormatInt(leadFor.Milliseconds(), 10)); err != nil {
			return pg.Classify("take the leader lock", err)
		}
		if led {
			failed = work()
		}
		return nil
	})
	if led {
		return true, failed
	}
	return false, err
}
