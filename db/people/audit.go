package people

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// ViaCommand is the Via of actions on the command line.
const ViaCommand = "command"

// AuditVias are the ways in which an action can be requested.
var AuditVias = []string{db.ViaPage, db.ViaAPI, ViaCommand}

// AuditEntry is a row of audit_entries: an action, who performed it, and its outcome.
type AuditEntry struct {
	Seq int64     `db:"seq" json:"seq"`
	At  time.Time `db:"at" json:"at"`
	// Actor is the name of the account or token, or the name that the person typed; without accounts it is the
	// client's address. ActorID is the account's id.
	Actor   string `db:"actor" json:"actor"`
	ActorID string `db:"actor_id" json:"actor_id"`
	TokenID string `db:"token_id" json:"token_id"`
	Address string `db:"address" json:"address"`
	// Via is one of AuditVias.
	Via string `db:"via" json:"via"`
	// Action names the action, such as task.delete or sign-in.
	Action string `db:"action" json:"action"`
	// Object is the kind of object that was acted on.
	Object      string `db:"object" json:"object"`
	ObjectID    string `db:"object_id" json:"object_id"`
	ObjectName  string `db:"object_name" json:"object_name"`
	ProjectID   string `db:"project_id" json:"project_id"`
	ProjectName string `db:"project_name" json:"project_name"`
	// Status is the HTTP status of the response; OutcomeUnknown means that the outcome of the request is unknown.
	Status int `db:"status" json:"status"`
	// Before and After are settings as JSON, without secrets; empty if none changed.
	Before    string `db:"before" json:"before"`
	After     string `db:"after" json:"after"`
	RequestID string `db:"request_id" json:"request_id"`
	Hash      []byte `db:"hash" json:"-"`
	// IsUnsealed is set on an entry that was just added if the chain had no valid seal before. The chain's new end is then
	// not sealed either.
	IsUnsealed bool `db:"-" json:"-"`
}

// OutcomeUnknown is the status of an action whose process died before recording the outcome.
const OutcomeUnknown = 0

// hashAfter returns the entry's hash: SHA-256 of the hash before it and the entry as JSON.
func (e AuditEntry) hashAfter(before []byte) ([]byte, error) {
	e.At = e.At.UTC()
	text, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(append(bytes.Clone(before), text...))
	return sum[:], nil
}

// AuditSealer signs the ends of the chain with a key that the database does not have.
type AuditSealer interface {
	Sign(purpose string, message []byte) []byte
	Verify(purpose string, message, signature []byte) error
}

// AuditLog reads and writes the audit log.
type AuditLog struct {
	db     *pg.Pool
	sealer AuditSealer
}

// NewAuditLog returns the log in a store's database; sealer signs the ends of its chain.
func NewAuditLog(store *db.Store, sealer AuditSealer) AuditLog { return AuditLog{store.Pool(), sealer} }

// Add adds an entry, and returns it with its number, time and hash.
func (l AuditLog) Add(ctx context.Context, entry AuditEntry) (AuditEntry, error) {
	err := l.db.InTx(ctx, "add an audit entry", func(tx *sqlx.Tx) (err error) {
		entry, err = l.add(ctx, tx, entry)
		return err
	})
	return entry, err
}

// add implements Add within a transaction. It locks the chain until the transaction ends.
func (l AuditLog) add(ctx context.Context, tx *sqlx.Tx, entry AuditEntry) (AuditEntry, error) {
	const insert = `
		INSERT INTO audit_entries (seq, at, actor, actor_id, token_id, address, via, action, object, object_id, object_name,
		project_id, project_name,
			status, before, after, request_id, hash)
		VALUES (:seq, :at, :actor, :actor_id, :token_id, :address, :via, :action, :object, :object_id, :object_name,
		:project_id, :project_name,
			:status, :before, :after, :request_id, :hash)`
	chain, err := lock(ctx, tx)
	if err != nil {
		return entry, err
	}
	entry.Seq, entry.At = chain.LastSeq+1, chain.Now.UTC().Truncate(time.Microsecond)
	if entry.Hash, err = entry.hashAfter(chain.LastHash); err != nil {
		return entry, err
	}
	if _, err := tx.NamedExecContext(ctx, insert, entry); err != nil {
		return entry, pg.Classify("add an audit entry", err)
	}
	next := chain
	next.LastSeq, next.LastHash = entry.Seq, entry.Hash
	entry.IsUnsealed, err = l.replace(ctx, tx, chain, next)
	return entry, err
}

// AuditFilter narrows a list; its zero value matches everything.
type AuditFilter struct {
	// Actor is a name, compared without regard to case; Action is an action or the beginning of one, such as task;
	// Object is an id, a kind or a part of a name.
	Actor, Action, Object string
	// From is the earliest time, and To the time after the latest; nil leaves that end open.
	From, To *time.Time
}

func (f AuditFilter) where() (condition string, arguments map[string]any) {
	condition = "true"
	arguments = map[string]any{"actor": f.Actor, "action": f.Action, "actions": f.Action + ".", "object": f.Object,
		"name": pg.Containing(f.Object), "from": f.From, "to": f.To}
	for _, part := range []struct {
		isAsked   bool
		condition string
	}{
		{f.Actor != "", `lower(actor) = lower(:actor)`},
		{f.Action != "", `(action = :action OR starts_with(action, :actions))`},
		{f.Object != "", `(object_id = :object OR object = :object OR object_name ILIKE :name)`},
		{f.From != nil, `at >= :from`},
		{f.To != nil, `at < :to`},
	} {
		if part.isAsked {
			condition += " AND " + part.condition
		}
	}
	return condition, arguments
}

// List returns a page of the entries that match, the newest first, and how many match.
func (l AuditLog) List(ctx context.Context, filter AuditFilter,
	page db.Page) (entries []AuditEntry, total int, err error) {
	where, arguments := filter.where()
	if err := pg.GetNamed(ctx, l.db, &total, `SELECT count(*) FROM audit_entries WHERE `+where, arguments); err != nil {
		return nil, 0, pg.Classify("count the audit entries", err)
	}
	arguments["size"], arguments["offset"] = page.Size, page.Offset()
	err = pg.SelectNamed(ctx, l.db, &entries,
		`SELECT * FROM audit_entries WHERE `+where+` ORDER BY seq DESC LIMIT :size OFFSET :offset`, arguments)
	return entries, total, pg.Classify("list the audit entries", err)
}

// batch is how many entries Each reads at a time.
const batch = 1000

// Each calls yield with every entry that matches, the oldest first.
func (l AuditLog) Each(ctx context.Context, filter AuditFilter, yield func(AuditEntry) error) error {
	where, arguments := filter.where()
	for after := int64(0); ; {
		var entries []AuditEntry
		arguments["after"], arguments["size"] = after, batch
		err := pg.SelectNamed(ctx, l.db, &entries,
			`SELECT * FROM audit_entries WHERE seq > :after AND `+where+` ORDER BY seq LIMIT :size`, arguments)
		if err != nil {
			return pg.Classify("read the audit entries", err)
		}
		for _, entry := range entries {
			if err := yield(entry); err != nil {
				return err
			}
			after = entry.Seq
		}
		if len(entries) < batch {
			return nil
		}
	}
}

// Prune removes entries older than keep and returns how many it removed. The chain then begins after them, and the
// seal covers its new beginning, so removing entries in any other way cannot be made to look like pruning.
func (l AuditLog) Prune(ctx context.Context, keep time.Duration) (removed int, err error) {
	const old = `
		SELECT seq, hash FROM audit_entries
		WHERE seq < coalesce((SELECT min(seq) FROM audit_entries WHERE at >= now() - $1 * interval '1 second'),
			CAST('9223372036854775807' AS bigint)) -- all of them may be old
		ORDER BY seq DESC LIMIT 1`
	err = l.db.InTx(ctx, "remove old audit entries", func(tx *sqlx.Tx) error {
		var last AuditEntry
		err := tx.GetContext(ctx, &last, old, keep.Seconds())
		if pg.IsNoRows(err) {
			return nil
		}
		if err != nil {
			return pg.Classify("look for old audit entries", err)
		}
		chain, err := lock(ctx, tx)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `SET LOCAL wending.removes_old_audit = 'on'`); err != nil {
			return pg.Classify("remove old audit entries", err)
		}
		result, err := tx.ExecContext(ctx, `DELETE FROM audit_entries WHERE seq <= $1`, last.Seq)
		if removed, err = pg.Affected("remove old audit entries", result, err); err != nil {
			return err
		}
		next := chain
		next.FirstSeq, next.FirstHash = last.Seq, last.Hash
		_, err = l.replace(ctx, tx, chain, next)
		return err
	})
	return removed, err
}

// Actions returns the actions that appear in the log, in alphabetical order.
func (l AuditLog) Actions(ctx context.Context) (actions []string, err error) {
	err = l.db.SelectContext(ctx, &actions, `SELECT DISTINCT action FROM audit_entries ORDER BY action`)
	return actions, pg.Classify("list the actions", err)
}

// ObjectOfAction returns the kind of object that an action affects, which is the part of its name before the dot.
func ObjectOfAction(action string) string {
	object, _, _ := strings.Cut(action, ".")
	return object
}
