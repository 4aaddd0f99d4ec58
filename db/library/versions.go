package library

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

const insertPromptVersion = `
	INSERT INTO prompt_versions (entry_id, version, system_template, user_template, note)
	SELECT :id, coalesce(max(version), 0) + 1, :system_template, :user_template, :note
	FROM prompt_versions
	WHERE entry_id = :id`

const insertDatasetVersion = `
	INSERT INTO dataset_versions (entry_id, version, file_name, extension, size, sha256, question_column, answer_column, columns, total_items, note)
	VALUES (:id, :version, :file_name, :extension, :size, :sha256, :question_column, :answer_column, :columns, :total_items, :note)`

// InsertPrompt stores a prompt with its first version.
func (l Library) InsertPrompt(ctx context.Context, prompt Prompt) error {
	return l.db.InTx(ctx, "store a prompt", func(tx *sqlx.Tx) error {
		if err := l.Prompts.insert(ctx, tx, prompt); err != nil {
			return err
		}
		_, err := tx.NamedExecContext(ctx, insertPromptVersion, prompt)
		return pg.Classify("store a prompt's version", err)
	})
}

// AddPromptVersion stores the next version of a prompt, and returns the prompt with it.
func (l Library) AddPromptVersion(ctx context.Context, prompt Prompt) (Prompt, error) {
	err := l.db.InTx(ctx, "store a prompt's version", func(tx *sqlx.Tx) error {
		if err := touch(ctx, tx, "prompts", prompt.ID); err != nil {
			return err
		}
		_, err := tx.NamedExecContext(ctx, insertPromptVersion, prompt)
		return pg.Classify("store a prompt's version", err)
	})
	if err != nil {
		return Prompt{}, err
	}
	return l.Prompts.Get(ctx, prompt.ID)
}

// touch locks an entry, so that versions are numbered one after another.
func touch(ctx context.Context, tx *sqlx.Tx, table string, id uuid.UUID) error {
	result, err := tx.ExecContext(ctx, `UPDATE `+table+` SET updated_at = now() WHERE id = $1`, id)
	changed, err := pg.Affected("lock an entry of "+table, result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: KindEntry}
	}
	return err
}

// PromptVersions returns the versions of a prompt, newest first; a number that is not 0 takes that one alone.
func (l Library) PromptVersions(ctx context.Context, id uuid.UUID, number int) ([]PromptVersion, error) {
	const read = `
		SELECT ` + promptVersionColumns + `
		FROM (SELECT *, created_at AS saved_at FROM prompt_versions) v
		WHERE v.entry_id = $1 AND ($2 = 0 OR v.version = $2)
		ORDER BY v.version DESC`
	var versions []PromptVersion
	err := l.db.SelectContext(ctx, &versions, read, id, number)
	return versions, missing(len(versions), pg.Classify("read a prompt's versions", err))
}

// notesMost is how many versions of a prompt are listed.
const notesMost = 200

// PromptNotes returns the newest versions of a prompt without their templates.
func (l Library) PromptNotes(ctx context.Context, id uuid.UUID) (versions []PromptVersion, err error) {
	const read = `
		SELECT version, note, created_at AS saved_at
		FROM prompt_versions
		WHERE entry_id = $1
		ORDER BY version DESC
		LIMIT $2`
	err = l.db.SelectContext(ctx, &versions, read, id, notesMost)
	return versions, pg.Classify("list a prompt's versions", err)
}

// DatasetVersions is PromptVersions of a dataset.
func (l Library) DatasetVersions(ctx context.Context, id uuid.UUID, number int) ([]DatasetVersion, error) {
	const read = `
		SELECT ` + datasetVersion + `
		FROM (SELECT *, created_at AS saved_at FROM dataset_versions) v
		WHERE v.entry_id = $1 AND ($2 = 0 OR v.version = $2)
		ORDER BY v.version DESC`
	var versions []DatasetVersion
	err := l.db.SelectContext(ctx, &versions, read, id, number)
	return versions, missing(len(versions), pg.Classify("read a dataset's versions", err))
}

func missing(found int, err error) error {
	if err == nil && found == 0 {
		return &db.NotFoundError{Kind: KindEntry}
	}
	return err
}

// InsertDataset stores a dataset with its first version. keepFile is called just before the commit.
func (l Library) InsertDataset(ctx context.Context, dataset Dataset, keepFile func(version int) error) error {
	dataset.Version = 1
	return l.db.InTx(ctx, "store a dataset", func(tx *sqlx.Tx) error {
		if err := l.Datasets.insert(ctx, tx, dataset); err != nil {
			return err
		}
		return insertVersion(ctx, tx, dataset, keepFile)
	})
}

// AddDatasetVersion stores the next version of a dataset, and returns the dataset with it. keepFile is called just before
// the commit, with the version's number.
func (l Library) AddDatasetVersion(ctx context.Context, dataset Dataset, keepFile func(version int) error) (Dataset, error) {
	err := l.db.InTx(ctx, "store a dataset's version", func(tx *sqlx.Tx) error {
		if err := touch(ctx, tx, "datasets", dataset.ID); err != nil {
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
	return l.Datasets.Get(ctx, dataset.ID)
}

func insertVersion(ctx context.Context, tx *sqlx.Tx, dataset Dataset, keepFile func(version int) error) error {
	if _, err := tx.NamedExecContext(ctx, insertDatasetVersion, dataset); err != nil {
		return pg.Classify("store a dataset's version", err)
	}
	return keepFile(dataset.Version)
}
