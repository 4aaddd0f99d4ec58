package entries

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

const insertPromptVersion = `
	INSERT INTO prompt_versions (entry_id, version, system_template, user_template, note)
	SELECT :id, coalesce(max(version), 0) + 1, :system_template, :user_template, :note
	FROM prompt_versions
	WHERE entry_id = :id`

const insertDatasetVersion = `
	INSERT INTO dataset_versions (entry_id, version, file_name, extension, size, sha256, id_column, question_column,
	answer_column, encoding, columns, total_items, note)
	VALUES (:id, :version, :file_name, :extension, :size, :sha256, :id_column, :question_column, :answer_column, :encoding,
	:columns, :total_items, :note)`

const insertEvaluatorVersion = `
	INSERT INTO evaluator_versions (entry_id, version, kind, config)
	SELECT :id, coalesce(max(version), 0) + 1, :kind, :config
	FROM evaluator_versions
	WHERE entry_id = :id`

// InsertPrompt stores a prompt with its first version.
func (l Library) InsertPrompt(ctx context.Context, scope db.Scope, prompt Prompt) error {
	return insertVersioned(ctx, scope, l.Prompts, prompt, insertPromptVersion)
}

// AddPromptVersion stores the next version of a prompt, and returns the prompt in that version.
func (l Library) AddPromptVersion(ctx context.Context, scope db.Scope, prompt Prompt) (Prompt, error) {
	return addVersion(ctx, scope, l.Prompts, prompt.ID, prompt, insertPromptVersion)
}

// InsertEvaluator stores an evaluator with its first version.
func (l Library) InsertEvaluator(ctx context.Context, scope db.Scope, evaluator Evaluator) error {
	return insertVersioned(ctx, scope, l.Evaluators, evaluator, insertEvaluatorVersion)
}

// AddEvaluatorVersion stores the next version of an evaluator, and returns the evaluator in that version.
func (l Library) AddEvaluatorVersion(ctx context.Context, scope db.Scope, evaluator Evaluator) (Evaluator, error) {
	return addVersion(ctx, scope, l.Evaluators, evaluator.ID, evaluator, insertEvaluatorVersion)
}

// insertVersioned stores an entry with its first version.
func insertVersioned[T any](ctx context.Context, scope db.Scope, kind Kind[T], entry T, insertVersion string) error {
	return kind.db.InTx(ctx, "store into "+kind.name, func(tx *sqlx.Tx) error {
		if err := kind.insert(ctx, tx, scope, entry); err != nil {
			return err
		}
		_, err := tx.NamedExecContext(ctx, insertVersion, entry)
		return pg.Classify("store the first version of an entry of "+kind.name, err)
	})
}

// addVersion stores the next version of an entry, and returns the entry in that version.
func addVersion[T any](ctx context.Context, scope db.Scope, kind Kind[T], id uuid.UUID, entry T,
	insertVersion string) (T, error) {
	err := kind.db.InTx(ctx, "store a version of an entry of "+kind.name, func(tx *sqlx.Tx) error {
		if err := touch(ctx, tx, scope, kind.name, id); err != nil {
			return err
		}
		_, err := tx.NamedExecContext(ctx, insertVersion, entry)
		return pg.Classify("store a version of an entry of "+kind.name, err)
	})
	if err != nil {
		var none T
		return none, err
	}
	return kind.Get(ctx, scope, id)
}

// touch locks an entry, so that concurrent calls number their versions one after another.
func touch(ctx context.Context, tx *sqlx.Tx, scope db.Scope, table string, id uuid.UUID) error {
	result, err := tx.ExecContext(ctx, `UPDATE `+table+` SET updated_at = now() WHERE id = $1 AND `+
		db.Within("project_id", "$2"), id, scope)
	changed, err := pg.Affected("lock an entry of "+table, result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: KindEntry}
	}
	return err
}

// readVersions reads the versions of the entry $1 of a kind (prompt, evaluator or dataset) in the scope $2.
func readVersions(kind, columns string) string {
	return `
	SELECT ` + columns + `
	FROM (SELECT *, created_at AS saved_at FROM ` + kind + `_versions WHERE entry_id = $1) v
	JOIN ` + kind + `s e ON e.id = $1 AND ` + db.Within("e.project_id", "$2")
}

// PromptVersion returns a version of a prompt, or db.ErrNotFound.
func (l Library) PromptVersion(ctx context.Context, scope db.Scope, id uuid.UUID,
	number int) (version PromptVersion, err error) {
	err = l.getVersion(ctx, scope, &version, readVersions("prompt", promptVersionColumns), id, number)
	return version, err
}

// PromptVersions returns a page of the versions of a prompt, newest first.
func (l Library) PromptVersions(ctx context.Context, scope db.Scope, id uuid.UUID,
	page db.Page) (versions []PromptVersion, err error) {
	err = l.listVersions(ctx, scope, &versions, readVersions("prompt", promptVersionColumns), id, page)
	return versions, err
}

// EvaluatorVersion returns a version of an evaluator, or db.ErrNotFound.
func (l Library) EvaluatorVersion(ctx context.Context, scope db.Scope, id uuid.UUID,
	number int) (version EvaluatorVersion, err error) {
	err = l.getVersion(ctx, scope, &version, readVersions("evaluator", evaluatorVersion), id, number)
	return version, err
}

// EvaluatorVersions returns a page of the versions of an evaluator, newest first.
func (l Library) EvaluatorVersions(ctx context.Context, scope db.Scope, id uuid.UUID,
	page db.Page) (versions []EvaluatorVersion, err error) {
	err = l.listVersions(ctx, scope, &versions, readVersions("evaluator", evaluatorVersion), id, page)
	return versions, err
}

func (l Library) getVersion(ctx context.Context, scope db.Scope, version any, read string, id uuid.UUID,
	number int) error {
	err := l.db.GetContext(ctx, version, read+` WHERE v.version = $3::bigint`, id, scope, number)
	return db.NotFound(KindEntry, pg.Classify("read a version", err))
}

func (l Library) listVersions(ctx context.Context, scope db.Scope, versions any, read string, id uuid.UUID,
	page db.Page) error {
	err := l.db.SelectContext(ctx, versions, read+` ORDER BY v.version DESC LIMIT $3 OFFSET $4`, id, scope, page.Size,
		page.Offset())
	return pg.Classify("read the versions", err)
}

// notesMost is the maximum number of versions that PromptNotes returns for each prompt.
const notesMost = 200

// PromptNotes returns the newest versions of prompts (at most notesMost of each) without their templates, newest first,
// keyed by prompt id.
func (l Library) PromptNotes(ctx context.Context, scope db.Scope,
	ids ...uuid.UUID) (map[uuid.UUID][]PromptVersion, error) {
	read := `
		SELECT v.entry_id, v.version, v.note, v.created_at AS saved_at
		FROM (SELECT *, row_number() OVER (PARTITION BY entry_id ORDER BY version DESC) AS place FROM prompt_versions
		WHERE entry_id = ANY ($1)) v
		JOIN prompts e ON e.id = v.entry_id AND ` + db.Within("e.project_id", "$3") + `
		WHERE v.place <= $2
		ORDER BY v.entry_id, v.version DESC`
	var found []struct {
		EntryID uuid.UUID `db:"entry_id"`
		PromptVersion
	}
	if err := l.db.SelectContext(ctx, &found, read, pq.Array(ids), notesMost, scope); err != nil {
		return nil, pg.Classify("list prompts' versions", err)
	}
	versions := make(map[uuid.UUID][]PromptVersion, len(ids))
	for _, one := range found {
		versions[one.EntryID] = append(versions[one.EntryID], one.PromptVersion)
	}
	return versions, nil
}

// datasetsMost is the maximum number of versions that EarlierDatasets returns for each dataset.
const datasetsMost = 50

// EarlierDatasets returns the earlier versions of datasets (at most datasetsMost of each) without their contents,
// newest first, keyed by dataset id.
func (l Library) EarlierDatasets(ctx context.Context, scope db.Scope,
	ids ...uuid.UUID) (map[uuid.UUID][]DatasetVersion, error) {
	read := `
		SELECT v.entry_id, v.version, v.file_name, v.total_items, v.created_at AS saved_at
		FROM (SELECT *, row_number() OVER (PARTITION BY entry_id ORDER BY version DESC) AS place FROM dataset_versions
		WHERE entry_id = ANY ($1)) v
		JOIN datasets e ON e.id = v.entry_id AND ` + db.Within("e.project_id", "$3") + `
		WHERE v.place BETWEEN 2 AND $2 + 1
		ORDER BY v.entry_id, v.version DESC`
	var found []struct {
		EntryID uuid.UUID `db:"entry_id"`
		DatasetVersion
	}
	if err := l.db.SelectContext(ctx, &found, read, pq.Array(ids), datasetsMost, scope); err != nil {
		return nil, pg.Classify("list earlier dataset versions", err)
	}
	versions := make(map[uuid.UUID][]DatasetVersion, len(ids))
	for _, one := range found {
		versions[one.EntryID] = append(versions[one.EntryID], one.DatasetVersion)
	}
	return versions, nil
}

// DatasetVersion returns a version of a dataset, or db.ErrNotFound.
func (l Library) DatasetVersion(ctx context.Context, scope db.Scope, id uuid.UUID,
	number int) (version DatasetVersion, err error) {
	err = l.getVersion(ctx, scope, &version, readVersions("dataset", datasetVersion), id, number)
	return version, err
}

// DatasetVersions returns a page of the versions of a dataset, newest first.
func (l Library) DatasetVersions(ctx context.Context, scope db.Scope, id uuid.UUID,
	page db.Page) (versions []DatasetVersion, err error) {
	err = l.listVersions(ctx, scope, &versions, readVersions("dataset", datasetVersion), id, page)
	return versions, err
}

// InsertDataset stores a dataset with its first version. keepFile is called just before the commit.
func (l Library) InsertDataset(ctx context.Context, scope db.Scope, dataset Dataset,
	keepFile func(version int) error) error {
	dataset.Version = 1
	return l.db.InTx(ctx, "store a dataset", func(tx *sqlx.Tx) error {
		if err := l.Datasets.insert(ctx, tx, scope, dataset); err != nil {
			return err
		}
		return insertVersion(ctx, tx, dataset, keepFile)
	})
}

// AddDatasetVersion stores the next version of a dataset, and returns the dataset in that version. keepFile is called
// just before the commit, with the version's number.
func (l Library) AddDatasetVersion(ctx context.Context, scope db.Scope, dataset Dataset,
	keepFile func(version int) error) (Dataset, error) {
	err := l.db.InTx(ctx, "store a dataset's version", func(tx *sqlx.Tx) error {
		if err := touch(ctx, tx, scope, "datasets", dataset.ID); err != nil {
			return err
		}
		const next = `SELECT coalesce(max(version), 0) + 1 FROM dataset_versions WHERE entry_id = $1`
		if err := tx.GetContext(ctx, &dataset.Version, next, dataset.ID); err != nil {
			return pg.Classify("number a dataset's version", err)
		}
		return insertVersion(ctx, tx, dataset, keepFile)
	})
	if err != nil {
		return Dataset{}, err
	}
	return l.Datasets.Get(ctx, scope, dataset.ID)
}

func insertVersion(ctx context.Context, tx *sqlx.Tx, dataset Dataset, keepFile func(version int) error) error {
	if _, err := tx.NamedExecContext(ctx, insertDatasetVersion, dataset); err != nil {
		return pg.Classify("store a dataset's version", err)
	}
	return keepFile(dataset.Version)
}
