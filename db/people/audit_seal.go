package people

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// ends records where the chain of entries begins and ends.
type ends struct {
	// FirstSeq is the number of the last entry that was removed because of its age; 0 means that none has been.
	FirstSeq  int64  `db:"first_seq"`
	FirstHash []byte `db:"first_hash"`
	LastSeq   int64  `db:"last_seq"`
	LastHash  []byte `db:"last_hash"`
	// Seal is the signature of the fields above; nil means that there has never been one.
	Seal []byte    `db:"seal"`
	Now  time.Time `db:"now"`
}

// sealPurpose keeps the signatures of the chain's ends apart from all others.
const sealPurpose = "audit ends"

// message returns the signed text.
func (e ends) message() []byte {
	return fmt.Appendf(nil, "%d:%x %d:%x", e.FirstSeq, e.FirstHash, e.LastSeq, e.LastHash)
}

func (e ends) isEmpty() bool { return e.FirstSeq == 0 && e.LastSeq == 0 }

// AuditSealError means that the chain does not begin or end where it was sealed: entries were removed at an end, or it
// was sealed with a different key.
type AuditSealError struct {
	// Seq is the number of the last entry.
	Seq int64
	Err error
}

func (e *AuditSealError) Error() string {
	return fmt.Sprintf(
		"the audit's seal does not hold (its last entry is %d): entries were removed at an end, or SECRET_KEY is another: %v",
		e.Seq, e.Err)
}

func (e *AuditSealError) Unwrap() error { return e.Err }

var errNeverSealed = errors.New("it was never sealed; the server's first start does that")

// check returns an AuditSealError unless the chain's ends are sealed.
func (l AuditLog) check(chain ends) error {
	err := errNeverSealed
	if chain.Seal != nil {
		err = l.sealer.Verify(sealPurpose, chain.message(), chain.Seal)
	}
	if err != nil {
		return &AuditSealError{chain.LastSeq, err}
	}
	return nil
}

// lock reads the ends and prevents other changes to them until the transaction ends.
func lock(ctx context.Context, tx *sqlx.Tx) (chain ends, err error) {
	const read = `SELECT first_seq, first_hash, last_seq, last_hash, seal, clock_timestamp() AS now
		FROM audit_chain FOR UPDATE`
	err = tx.GetContext(ctx, &chain, read)
	return chain, pg.Classify("lock the audit", err)
}

// replace stores the new ends of the chain. It seals them only if the previous ends were sealed: otherwise the
// next entry would seal a removal that the seal is meant to reveal.
func (l AuditLog) replace(ctx context.Context, tx *sqlx.Tx, before, next ends) (isUnsealed bool, err error) {
	isNew := before.isEmpty() && before.Seal == nil
	if isUnsealed = !isNew && l.check(before) != nil; !isUnsealed {
		next.Seal = l.sealer.Sign(sealPurpose, next.message())
	}
	const change = `UPDATE audit_chain SET first_seq = :first_seq, first_hash = :first_hash, last_seq = :last_seq,
		last_hash = :last_hash, seal = :seal`
	_, err = tx.NamedExecContext(ctx, change, next)
	return isUnsealed, pg.Classify("store the audit's ends", err)
}

// SealAction is the action of the entry that seals a chain that has no seal or a broken one.
const SealAction = "audit.seal"

// Seal seals the chain with the current key if it is sealed with a previous one. In an installation upgraded from an
// older version, it also seals a chain that was never sealed, but only once; this adds an entry. Seal returns an
// AuditSealError if the existing seal is invalid or has been removed.
func (l AuditLog) Seal(ctx context.Context) error {
	return l.db.InTx(ctx, "seal the audit log", func(tx *sqlx.Tx) error {
		chain, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		if chain.Seal == nil && !chain.isEmpty() {
			var wasSealed bool
			if err := tx.GetContext(ctx, &wasSealed, `SELECT EXISTS (SELECT FROM audit_entries
				WHERE action = $1)`, SealAction); err != nil {
				return pg.Classify("look for a seal", err)
			}
			if !wasSealed {
				return l.sealAgain(ctx, tx, chain, AuditEntry{Actor: "wending", Via: "command"})
			}
		}
		if chain.Seal != nil || !chain.isEmpty() {
			if err := l.check(chain); err != nil {
				return err
			}
		}
		_, err = l.replace(ctx, tx, chain, chain)
		return err
	})
}

// SealAgain seals the chain as it is now, once the reason for the broken seal is known: a lost key or removed entries.
// It adds the entry by, which names the person who seals the chain, and records in it where the chain ended before.
func (l AuditLog) SealAgain(ctx context.Context, by AuditEntry) error {
	return l.db.InTx(ctx, "reseal the audit log", func(tx *sqlx.Tx) error {
		chain, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		return l.sealAgain(ctx, tx, chain, by)
	})
}

func (l AuditLog) sealAgain(ctx context.Context, tx *sqlx.Tx, chain ends, by AuditEntry) error {
	text, err := json.Marshal(map[string]any{"seq": chain.LastSeq, "hash": fmt.Sprintf("%x", chain.LastHash)})
	if err != nil {
		return err
	}
	chain.Seal = l.sealer.Sign(sealPurpose, chain.message())
	if _, err := tx.ExecContext(ctx, `UPDATE audit_chain SET seal = $1`, chain.Seal); err != nil {
		return pg.Classify("seal the audit log", err)
	}
	by.Action, by.Object, by.Status, by.Before = SealAction, ObjectOfAction(SealAction), 200, string(text)
	_, err = l.add(ctx, tx, by)
	return err
}

// BrokenChainError reports where entries were changed or removed.
type BrokenChainError struct{ Seq int64 }

func (e *BrokenChainError) Error() string {
	return fmt.Sprintf("the audit is not as it was written, from entry %d on", e.Seq)
}

// KnownEnd is an entry that the caller knows from the log or an export.
type KnownEnd struct {
	Seq  int64
	Hash []byte
}

// MissingEntryError means that a known entry is missing or differs.
type MissingEntryError struct{ Seq int64 }

func (e *MissingEntryError) Error() string {
	return fmt.Sprintf("entry %d is not there as it was known: an older state of the audit was put in its place", e.Seq)
}

// VerifiedAudit is the result of Verify.
type VerifiedAudit struct {
	Entries int
	// Seals are the entries that sealed an unsealed chain: on the first start after an upgrade, or with 'wending audit
	// seal' after the seal was broken. The seal proves nothing about entries before the last of these, which were
	// accepted as they were.
	Seals []AuditEntry
	// RemovedTo is the number of the last entry that was removed because of its age; 0 means that none has
	// been. KnownEnd entries before it can no longer be compared.
	RemovedTo int64
	// Last is the newest entry: anyone who keeps it can prove later that it is still there.
	Last KnownEnd
}

// Verify reads all entries. It returns a BrokenChainError where one was changed or removed, an AuditSealError if the
// chain's ends differ from the sealed ones, and a MissingEntryError if a known entry is missing. Entries added or
// removed in the meantime do not matter.
func (l AuditLog) Verify(ctx context.Context, known ...KnownEnd) (found VerifiedAudit, err error) {
	snapshot, release, err := l.db.Snapshot(ctx)
	if err != nil {
		return found, err
	}
	defer release()
	var chain ends
	const read = `SELECT first_seq, first_hash, last_seq, last_hash, seal, now() AS now FROM audit_chain`
	if err := snapshot.GetContext(ctx, &chain, read); err != nil {
		return found, pg.Classify("read the audit's ends", err)
	}
	found.RemovedTo, found.Last = chain.FirstSeq, KnownEnd{chain.LastSeq, chain.LastHash}
	hashes := map[int64][]byte{chain.FirstSeq: chain.FirstHash}
	for _, one := range known {
		if _, isThere := hashes[one.Seq]; !isThere {
			hashes[one.Seq] = nil // set when the entry is read
		}
	}
	seq, hash := chain.FirstSeq, chain.FirstHash
	err = AuditLog{snapshot, l.sealer}.Each(ctx, AuditFilter{}, func(entry AuditEntry) error {
		want, err := entry.hashAfter(hash)
		if err != nil {
			return err
		}
		if entry.Seq != seq+1 || !bytes.Equal(entry.Hash, want) {
			return &BrokenChainError{seq + 1}
		}
		seq, hash = entry.Seq, entry.Hash
		found.Entries++
		if entry.Action == SealAction {
			found.Seals = append(found.Seals, entry)
		}
		if _, isKnown := hashes[seq]; isKnown {
			hashes[seq] = hash
		}
		return nil
	})
	if err == nil && (seq != chain.LastSeq || !bytes.Equal(hash, chain.LastHash)) {
		err = &BrokenChainError{seq + 1}
	}
	if err == nil {
		err = l.check(chain)
	}
	if err != nil {
		return found, err
	}
	for _, one := range known {
		if one.Seq >= chain.FirstSeq && (one.Seq < 1 || !bytes.Equal(hashes[one.Seq], one.Hash)) {
			return found, &MissingEntryError{one.Seq}
		}
	}
	return found, nil
}
