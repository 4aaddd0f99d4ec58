package engine

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/event"
	"wending/db/pg"
)

// AssetState tells whether a file has been copied.
type AssetState string

// An asset is QUEUED until its copy is stored or has failed permanently.
const (
	AssetQueued AssetState = "QUEUED"
	AssetStored AssetState = "STORED"
	AssetFailed AssetState = "FAILED"
)

// AssetStates lists all states.
var AssetStates = []AssetState{AssetQueued, AssetStored, AssetFailed}

// AnnouncedAsset is a file that an agent has announced.
type AnnouncedAsset struct {
	ID uuid.UUID
	// Number is the file's number within its call, and Attempt the attempt of the call that produced it; both start at 1.
	Number    int
	Attempt   int
	Path      string
	Kind      string
	IsPreview bool
	// URL is the file's address at the agent; empty if the file came inline, as Content.
	URL     string
	Content []byte
}

// AssetSource is the call that produced a file.
type AssetSource struct {
	TaskID uuid.UUID
	UnitID int64
	Epoch  int
	ItemID int64
	Target int
}

// FoundAsset is a file with the call that produced it.
type FoundAsset struct {
	AssetSource
	AnnouncedAsset
}

// insertAssets skips files of units whose claim no longer holds, and leaves existing rows as they are.
const insertAssets = `
	INSERT INTO assets (id, task_id, unit_id, epoch, item_id, target, number, attempt, path, kind, is_preview,
	original_url, content)
	SELECT g.id, g.task_id, g.unit_id, g.epoch, g.item_id, g.target, g.number, g.attempt, g.path, g.kind, g.is_preview,
		nullif(g.url, ''), nullif(g.content, '')
	FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::int[], $5::bigint[], $6::smallint[], $7::int[], $8::smallint[],
		$9::text[], $10::text[], $11::bool[], $12::text[], $13::bytea[])
		AS g (id, task_id, unit_id, epoch, item_id, target, number, attempt, path, kind, is_preview, url, content)
	JOIN units u ON u.id = g.unit_id AND u.epoch = g.epoch
	ON CONFLICT DO NOTHING`

// InsertAssets stores files of units whose claims still hold, within a transaction.
func InsertAssets(ctx context.Context, tx sqlx.ExecerContext, found []FoundAsset) error {
	if len(found) == 0 {
		return nil
	}
	var ids, tasks, paths, kinds, urls pq.StringArray
	var units, epochs, items, targets, numbers, attempts pq.Int64Array
	var previews pq.BoolArray
	var contents pq.ByteaArray
	for _, one := range found {
		ids, tasks = append(ids, one.ID.String()), append(tasks, one.TaskID.String())
		units, epochs, items = append(units, one.UnitID), append(epochs, int64(one.Epoch)), append(items, one.ItemID)
		targets, numbers, attempts = append(targets, int64(one.Target)), append(numbers, int64(one.Number)),
			append(attempts, int64(one.Attempt))
		paths, kinds, previews = append(paths, pg.StorableText(one.Path)), append(kinds, one.Kind),
			append(previews, one.IsPreview)
		urls, contents = append(urls, pg.StorableText(one.URL)), append(contents, one.Content)
	}
	_, err := tx.ExecContext(ctx, insertAssets, ids, tasks, units, epochs, items, targets, numbers, attempts, paths, kinds,
		previews, urls, contents)
	return pg.Classify("store the files that agents produced", err)
}

// Asset is a row of assets, without inline content.
type Asset struct {
	ID        uuid.UUID `db:"id"`
	TaskID    uuid.UUID `db:"task_id"`
	UnitID    int64     `db:"unit_id"`
	Epoch     int       `db:"epoch"`
	ItemID    int64     `db:"item_id"`
	Target    int       `db:"target"`
	Number    int       `db:"number"`
	Attempt   int       `db:"attempt"`
	Path      string    `db:"path"`
	Kind      string    `db:"kind"`
	IsPreview bool      `db:"is_preview"`
	// OriginalURL is nil if the file came inline.
	OriginalURL *string    `db:"original_url"`
	State       AssetState `db:"state"`
	Attempts    int        `db:"attempts"`
	// MediaType and the fields down to ThumbnailKey describe the copy; they are nil until it is stored.
	MediaType    *string `db:"media_type"`
	Size         *int64  `db:"size"`
	SHA256       []byte  `db:"sha256"`
	StorageKey   *string `db:"storage_key"`
	ThumbnailKey *string `db:"thumbnail_key"`
	// Error explains why there is no copy yet, or why it was removed; nil means that nothing has failed.
	Error     *string    `db:"error"`
	CreatedAt time.Time  `db:"created_at"`
	StoredAt  *time.Time `db:"stored_at"`
}

// IsImage reports whether the file is an image.
func (a Asset) IsImage() bool { return a.Kind == event.Image }

// HashOf returns the SHA-256 of the copy in hexadecimal; empty if it is not known yet.
func (a Asset) HashOf() string { return hex.EncodeToString(a.SHA256) }

const assetColumns = `a.id, a.task_id, a.unit_id, a.epoch, a.item_id, a.target, a.number, a.attempt, a.path, a.kind, a.is_preview,
		a.original_url, a.state, a.attempts, a.media_type, a.size, a.sha256, a.storage_key, a.thumbnail_key, a.error, a.created_at, a.stored_at`

// Assets reads and writes the assets of all tasks.
type Assets struct{ db *pg.Pool }

// NewAssets returns the Assets of a store.
func NewAssets(store *db.Store) Assets { return Assets{store.Pool()} }

// PlacedAsset is an asset of a current run together with its place in the report.
type PlacedAsset struct {
	Asset
	RunID      int64  `db:"run_id"`
	Variant    int    `db:"variant"`
	RunIndex   int    `db:"run_index"`
	QuestionID string `db:"question_id"`
	Question   string `db:"question"`
	// QuestionNumber counts from 1, in the order of the report.
	QuestionNumber int `db:"question_number"`
}

// AssetFilter narrows a list of assets; zero values match everything.
type AssetFilter struct {
	QuestionID string
	Variant    int
	// Kind is one of package event's kinds.
	Kind string
	// RunIDs limits the list to these runs; nil means all.
	RunIDs []int64
}

const fromPlaced = `
	FROM assets a
	JOIN evaluation_runs r ON r.unit_id = a.unit_id AND r.epoch = a.epoch AND r.item_id = a.item_id
	AND r.attempts = a.attempt AND r.is_current
	JOIN (
		SELECT id, question_id, left(question, 500) AS question, sort_key,
		row_number() OVER (ORDER BY sort_key) AS question_number
		FROM evaluation_items
		WHERE task_id = $1) i ON i.id = a.item_id
	WHERE a.task_id = $1 AND NOT a.is_preview AND ($2 = '' OR i.question_id = $2) AND ($3 = 0 OR r.variant = $3)
	AND ($4 = '' OR a.kind = $4)
	  AND ($5::bigint[] IS NULL OR r.id = ANY ($5))`

// List returns one page of the assets of a task's current runs, ordered by question, variant, run and number, and how
// many there are in all.
func (s Assets) List(ctx context.Context, taskID uuid.UUID, filter AssetFilter,
	page db.Page) (list []PlacedAsset, total int, err error) {
	const read = `SELECT ` + assetColumns +
		`, r.id AS run_id, r.variant, r.run_index, i.question_id, i.question, i.question_number` + fromPlaced + `
		ORDER BY i.sort_key, r.variant, r.run_index, a.number
		LIMIT $6 OFFSET $7`
	arguments := []any{taskID, filter.QuestionID, filter.Variant, filter.Kind, pq.Array(filter.RunIDs)}
	if err := s.db.GetContext(ctx, &total, `SELECT count(*)`+fromPlaced, arguments...); err != nil {
		return nil, 0, pg.Classify("count the assets", err)
	}
	if total == 0 {
		return nil, 0, nil
	}
	err = s.db.SelectContext(ctx, &list, read, append(arguments, page.Size, page.Offset())...)
	return list, total, pg.Classify("list the assets", err)
}

// OfRuns returns the assets of the current runs of questions, keyed by run and ordered by number.
func (s Assets) OfRuns(ctx context.Context, taskID uuid.UUID, itemIDs []int64) (byRun map[int64][]Asset, err error) {
	const read = `
		SELECT r.id AS run_id, ` + assetColumns + `
		FROM assets a
		JOIN evaluation_runs r ON r.unit_id = a.unit_id AND r.epoch = a.epoch AND r.item_id = a.item_id
		AND r.attempts = a.attempt AND r.is_current
		WHERE a.task_id = $1 AND a.item_id = ANY ($2) AND NOT a.is_preview
		ORDER BY r.id, a.number`
	var rows []struct {
		Asset
		RunID int64 `db:"run_id"`
	}
	if err := s.db.SelectContext(ctx, &rows, read, taskID, pq.Int64Array(itemIDs)); err != nil {
		return nil, pg.Classify("read the files that agents produced", err)
	}
	byRun = map[int64][]Asset{}
	for _, row := range rows {
		byRun[row.RunID] = append(byRun[row.RunID], row.Asset)
	}
	return byRun, nil
}

// OfUnits returns all files that the units' calls reported, previews included, keyed by unit and ordered by number.
func (s Assets) OfUnits(ctx context.Context, taskID uuid.UUID, unitIDs []int64) (byUnit map[int64][]Asset, err error) {
	const read = `
		SELECT ` + assetColumns + `
		FROM assets a
		WHERE a.task_id = $1 AND a.unit_id = ANY ($2)
		ORDER BY a.unit_id, a.epoch, a.item_id, a.attempt, a.number`
	var list []Asset
	if err := s.db.SelectContext(ctx, &list, read, taskID, pq.Int64Array(unitIDs)); err != nil {
		return nil, pg.Classify("read the events of calls", err)
	}
	byUnit = map[int64][]Asset{}
	for _, one := range list {
		byUnit[one.UnitID] = append(byUnit[one.UnitID], one)
	}
	return byUnit, nil
}

// Earlier returns the assets that earlier turns of a question's conversation produced in one variant and run, oldest
// first.
func (s Assets) Earlier(ctx context.Context, itemID int64, variant, runIndex int) (list []Asset, err error) {
	const read = `
		SELECT ` + assetColumns + `
		FROM evaluation_items i
		JOIN evaluation_items before ON before.task_id = i.task_id AND before.series = i.series AND before.turn < i.turn
		JOIN evaluation_runs r ON r.item_id = before.id AND r.variant = $2 AND r.run_index = $3 AND r.is_current
		JOIN assets a ON a.unit_id = r.unit_id AND a.epoch = r.epoch AND a.item_id = r.item_id AND a.attempt = r.attempts
		AND NOT a.is_preview
		WHERE i.id = $1
		ORDER BY before.turn, a.number`
	err = s.db.SelectContext(ctx, &list, read, itemID, variant, runIndex)
	return list, pg.Classify("read the files of earlier turns", err)
}

// Any reports whether agents have produced any files in a task.
func (s Assets) Any(ctx context.Context, taskID uuid.UUID) (any bool, err error) {
	err = s.db.GetContext(ctx, &any, `SELECT EXISTS (SELECT FROM assets WHERE task_id = $1 AND NOT is_preview)`, taskID)
	return any, pg.Classify("look for assets", err)
}

// Items returns the set of ids of a task's items for which some run produced a file.
func (s Assets) Items(ctx context.Context, taskID uuid.UUID) (items map[int64]bool, err error) {
	var ids []int64
	err = s.db.SelectContext(ctx, &ids, `SELECT DISTINCT item_id FROM assets WHERE task_id = $1
		AND NOT is_preview`, taskID)
	items = make(map[int64]bool, len(ids))
	for _, id := range ids {
		items[id] = true
	}
	return items, pg.Classify("list the questions with files", err)
}

// Counts returns the number of assets of each kind among the current runs of a task.
func (s Assets) Counts(ctx context.Context, taskID uuid.UUID) (counts map[string]int, err error) {
	const read = `
		SELECT a.kind, count(*) AS count
		FROM assets a
		JOIN evaluation_runs r ON r.unit_id = a.unit_id AND r.epoch = a.epoch AND r.item_id = a.item_id
		AND r.attempts = a.attempt AND r.is_current
		WHERE a.task_id = $1 AND NOT a.is_preview
		GROUP BY a.kind`
	var rows []struct {
		Kind  string `db:"kind"`
		Count int    `db:"count"`
	}
	if err := s.db.SelectContext(ctx, &rows, read, taskID); err != nil {
		return nil, pg.Classify("count the assets", err)
	}
	counts = map[string]int{}
	for _, row := range rows {
		counts[row.Kind] = row.Count
	}
	return counts, nil
}

// Get returns an asset of a task, or db.ErrNotFound.
func (s Assets) Get(ctx context.Context, taskID, id uuid.UUID) (asset Asset, err error) {
	err = s.db.GetContext(ctx, &asset, `SELECT `+assetColumns+` FROM assets a WHERE a.id = $1 AND a.task_id = $2`, id, taskID)
	return asset, pg.Classify("read the asset", err)
}

// Shown selects the files on pages that people without an account can open: the files of current runs or, with UnitID
// or ItemID, the files in the replay of that unit or item, previews included.
type Shown struct {
	ItemID, UnitID *int64
	// ItemIDs limits the files to these items if neither ItemID nor UnitID is set; nil means all items.
	ItemIDs []int64
}

// GetShown returns an asset of a task if it is among those shown, or db.ErrNotFound.
func (s Assets) GetShown(ctx context.Context, taskID, id uuid.UUID, shown Shown) (asset Asset, err error) {
	const read = `
		SELECT ` + assetColumns + `
		FROM assets a
		WHERE a.id = $1 AND a.task_id = $2 AND EXISTS (
			SELECT
			FROM evaluation_runs r
			WHERE r.unit_id = a.unit_id AND r.item_id = a.item_id AND CASE
				WHEN $4::bigint IS NOT NULL THEN r.unit_id = $4
				WHEN $3::bigint IS NOT NULL THEN r.item_id = $3 AND r.is_current
				ELSE r.is_current AND r.epoch = a.epoch AND r.attempts = a.attempt AND NOT a.is_preview
				AND ($5::bigint[] IS NULL OR r.item_id = ANY ($5))
			END)`
	err = s.db.GetContext(ctx, &asset, read, id, taskID, shown.ItemID, shown.UnitID, pq.Int64Array(shown.ItemIDs))
	return asset, pg.Classify("read the asset", err)
}

// Waiting returns the content of an asset that came inline and is not copied yet, or db.ErrNotFound.
func (s Assets) Waiting(ctx context.Context, taskID, id uuid.UUID) (content []byte, err error) {
	const read = `SELECT content FROM assets WHERE id = $1 AND task_id = $2 AND state = 'QUEUED' AND content IS NOT NULL`
	err = s.db.GetContext(ctx, &content, read, id, taskID)
	return content, pg.Classify("read the files waiting to be copied", err)
}

// ClaimedAsset is an asset that this process has claimed for copying.
type ClaimedAsset struct {
	Asset
	// Content is the content of a file that came inline; nil if the file must be fetched.
	Content []byte `db:"content"`
}

// ClaimFor is how long a claim lasts unless it is renewed.
const ClaimFor = 30 * time.Second

// Claim claims due assets, previews last, and counts an attempt for each; the parameter free is the number of free
// slots. held is the number of slots that each task already occupies in this process. A task gets another slot only
// while more slots are free than it occupies, so that slow downloads leave slots for other tasks (dynamic thresholds:
// Choudhury and Hahne, 1998).
func (s Assets) Claim(ctx context.Context, free int, held map[uuid.UUID]int) (claimed []ClaimedAsset, err error) {
	const claim = `
		WITH due AS (
			SELECT a.id, a.is_preview, a.next_at,
				coalesce(held.places, 0) + row_number() OVER (PARTITION BY a.task_id ORDER BY a.is_preview, a.next_at) AS place
			FROM assets a
			LEFT JOIN unnest($3::uuid[], $4::int[]) AS held (task_id, places) ON held.task_id = a.task_id
			WHERE a.state = 'QUEUED' AND a.next_at <= now() AND (a.claimed_until IS NULL OR a.claimed_until <= now())),
		ordered AS (
			SELECT id, place, row_number() OVER (ORDER BY place, is_preview, next_at) AS nth
			FROM due),
		picked AS (
			SELECT a.id
			FROM ordered
			JOIN assets a ON a.id = ordered.id
			WHERE place + nth <= $1 + 1
			  AND a.state = 'QUEUED' AND (a.claimed_until IS NULL OR a.claimed_until <= now())
			FOR UPDATE OF a SKIP LOCKED)
		UPDATE assets a
		SET attempts = attempts + 1, claimed_until = now() + $2 * interval '1 second'
		FROM picked
		WHERE a.id = picked.id
		RETURNING ` + assetColumns + `, a.content`
	tasks, places := make(pq.StringArray, 0, len(held)), make(pq.Int64Array, 0, len(held))
	for id, count := range held {
		tasks, places = append(tasks, id.String()), append(places, int64(count))
	}
	err = s.db.SelectContext(ctx, &claimed, claim, free, ClaimFor.Seconds(), tasks, places)
	return claimed, pg.Classify("claim files to copy", err)
}

// Renew extends a claim. It returns db.ErrConflict if the asset was deleted or another process has claimed it since.
func (s Assets) Renew(ctx context.Context, claimed ClaimedAsset) error {
	const renew = `UPDATE assets SET claimed_until = now() + $3 * interval '1 second' WHERE id = $1 AND attempts = $2
		AND state = 'QUEUED'`
	result, err := s.db.ExecContext(ctx, renew, claimed.ID, claimed.Attempts, ClaimFor.Seconds())
	return pg.RequireRow("renew a claim", result, err)
}

// Release gives up a claim; its attempt is not counted.
func (s Assets) Release(ctx context.Context, claimed ClaimedAsset) error {
	const release = `UPDATE assets SET claimed_until = NULL, attempts = attempts - 1 WHERE id = $1 AND attempts = $2
		AND state = 'QUEUED'`
	_, err := s.db.ExecContext(ctx, release, claimed.ID, claimed.Attempts)
	return pg.Classify("release a claim", err)
}

// AssetCopy describes a file that has been copied.
type AssetCopy struct {
	Kind, MediaType string
	Size            int64
	SHA256          []byte
	StorageKey      string
	// ThumbnailKey is empty if there is none.
	ThumbnailKey string
}

const sameContent = `
	SELECT storage_key, coalesce(thumbnail_key, '') AS thumbnail_key
	FROM assets
	WHERE task_id = $1 AND sha256 = $2 AND size = $3 AND state = 'STORED'
	LIMIT 1`

// readSame implements SameContent for any connection, so that a transaction can use it.
func readSame(ctx context.Context, q sqlx.QueryerContext, taskID uuid.UUID, hash []byte,
	size int64) (found AssetCopy, isThere bool, err error) {
	var row struct {
		StorageKey   string `db:"storage_key"`
		ThumbnailKey string `db:"thumbnail_key"`
	}
	err = sqlx.GetContext(ctx, q, &row, sameContent, taskID, hash, size)
	if pg.IsNoRows(err) {
		return found, false, nil
	}
	return AssetCopy{StorageKey: row.StorageKey, ThumbnailKey: row.ThumbnailKey}, err == nil,
		pg.Classify("look for equal content", err)
}

// SameContent returns the keys of a copy with the same content that the task already has; isThere is false if there is
// none.
func (s Assets) SameContent(ctx context.Context, taskID uuid.UUID, hash []byte,
	size int64) (found AssetCopy, isThere bool, err error) {
	return readSame(ctx, s.db, taskID, hash, size)
}

// Settle records the copy of a claimed asset and returns what was recorded. If the task already has a copy with the
// same content, the asset points to that one and its keys are returned. It returns db.ErrConflict if the asset was
// deleted or another process has claimed it since.
func (s Assets) Settle(ctx context.Context, claimed ClaimedAsset, copied AssetCopy) (stored AssetCopy, err error) {
	const lock = `SELECT pg_advisory_xact_lock(hashtextextended($1, 0))`
	const settle = `
		UPDATE assets
		SET state = 'STORED', stored_at = now(), claimed_until = NULL, content = NULL, error = NULL,
			kind = $3, media_type = $4, size = $5, sha256 = $6, storage_key = $7, thumbnail_key = nullif($8, '')
		WHERE id = $1 AND attempts = $2 AND state = 'QUEUED'`
	err = s.db.InTx(ctx, "record a copied file", func(tx *sqlx.Tx) error {
		stored = copied
		if _, err := tx.ExecContext(ctx, lock, claimed.TaskID.String()+hex.EncodeToString(copied.SHA256)); err != nil {
			return pg.Classify("lock the content", err)
		}
		same, isThere, err := readSame(ctx, tx, claimed.TaskID, copied.SHA256, copied.Size)
		if err != nil {
			return err
		}
		if isThere {
			stored.StorageKey, stored.ThumbnailKey = same.StorageKey, same.ThumbnailKey
		}
		result, err := tx.ExecContext(ctx, settle, claimed.ID, claimed.Attempts, stored.Kind, stored.MediaType, stored.Size,
			stored.SHA256, stored.StorageKey, stored.ThumbnailKey)
		return pg.RequireRow("record a copied file", result, err)
	})
	return stored, err
}

// Fail records why a claimed asset could not be copied. The asset becomes due again after retryAfter; if retryAfter is
// 0, the failure is permanent and the asset's inline content is dropped.
func (s Assets) Fail(ctx context.Context, claimed ClaimedAsset, reason string, retryAfter time.Duration) error {
	const fail = `
		UPDATE assets
		SET state = CASE WHEN $4::float8 > 0 THEN 'QUEUED' ELSE 'FAILED' END, next_at = now() + $4 * interval '1 second',
			claimed_until = NULL, error = $3, content = CASE WHEN $4 > 0 THEN content END
		WHERE id = $1 AND attempts = $2 AND state = 'QUEUED'`
	_, err := s.db.ExecContext(ctx, fail, claimed.ID, claimed.Attempts, pg.StorableText(reason), retryAfter.Seconds())
	return pg.Classify("record a failed copy", err)
}

// Keys returns the storage keys of a task's copies and thumbnails; the set is empty if the task does not exist.
func (s Assets) Keys(ctx context.Context, taskID uuid.UUID) (keys map[string]bool, err error) {
	const read = `
		SELECT storage_key FROM assets WHERE task_id = $1 AND storage_key IS NOT NULL
		UNION
		SELECT thumbnail_key FROM assets WHERE task_id = $1 AND thumbnail_key IS NOT NULL`
	var list []string
	if err := s.db.SelectContext(ctx, &list, read, taskID); err != nil {
		return nil, pg.Classify("list the files of a task", err)
	}
	keys = make(map[string]bool, len(list))
	for _, key := range list {
		keys[key] = true
	}
	return keys, nil
}

// Exists reports whether a task exists.
func (s Assets) Exists(ctx context.Context, taskID uuid.UUID) (exists bool, err error) {
	err = s.db.GetContext(ctx, &exists, `SELECT EXISTS (SELECT FROM evaluation_tasks WHERE id = $1)`, taskID)
	return exists, pg.Classify("look for a task", err)
}

// Tasks returns the ids of the tasks that have stored copies of files.
func (s Assets) Tasks(ctx context.Context) (ids []uuid.UUID, err error) {
	err = s.db.SelectContext(ctx, &ids, `SELECT DISTINCT task_id FROM assets WHERE state = 'STORED'`)
	return ids, pg.Classify("list the tasks with files", err)
}

// Lost records that the stored file with the given key is gone: assets with that copy become FAILED, assets with that
// thumbnail lose only the thumbnail.
func (s Assets) Lost(ctx context.Context, taskID uuid.UUID, key string) error {
	const lose = `
		UPDATE assets
		SET state = CASE WHEN storage_key = $2 THEN 'FAILED' ELSE state END,
			error = CASE WHEN storage_key = $2 THEN 'the file is no longer in the store' ELSE error END,
			storage_key = CASE WHEN storage_key = $2 THEN NULL ELSE storage_key END,
			thumbnail_key = CASE WHEN thumbnail_key = $2 THEN NULL ELSE thumbnail_key END
		WHERE task_id = $1 AND (storage_key = $2 OR thumbnail_key = $2)`
	_, err := s.db.ExecContext(ctx, lose, taskID, key)
	return pg.Classify("record a missing file", err)
}

// PruneOld removes assets that no page shows any more: previews of tasks that ended longer than keep ago (0 keeps all
// previews) and, after a day, files of failed attempts and of calls that have no run, because they were stopped or
// lost.
func (s Assets) PruneOld(ctx context.Context, keep time.Duration) error {
	const prunePreviews = `
		DELETE FROM assets a USING evaluation_tasks t
		WHERE t.id = a.task_id AND a.is_preview AND t.completed_at < now() - $1 * interval '1 second'`
	const pruneStray = `
		DELETE FROM assets a
		WHERE a.created_at < now() - interval '1 day' AND NOT a.is_preview
		  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.unit_id = a.unit_id AND r.item_id = a.item_id
		  AND r.attempts = a.attempt)
		  AND NOT EXISTS (SELECT FROM units u WHERE u.id = a.unit_id AND u.state = 'RUNNING')`
	if keep > 0 {
		if _, err := s.db.ExecContext(ctx, prunePreviews, keep.Seconds()); err != nil {
			return pg.Classify("remove old previews", err)
		}
	}
	_, err := s.db.ExecContext(ctx, pruneStray)
	return pg.Classify("remove the files of calls without a run", err)
}
