package people

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// ViewKind is the kind of page that a saved view filters.
type ViewKind string

// The kinds of saved views: of the questions in a task's results or its review, and of the tasks in the list.
const (
	QuestionViews ViewKind = "questions"
	TaskViews     ViewKind = "tasks"
)

// ViewKinds lists all kinds.
var ViewKinds = []ViewKind{QuestionViews, TaskViews}

// View holds the filters and the order of a page, saved in a project under a name.
type View struct {
	ID        uuid.UUID `db:"id"`
	ProjectID uuid.UUID `db:"project_id"`
	Kind      ViewKind  `db:"kind"`
	Name      string    `db:"name"`
	// Query holds the page's parameters, encoded as in its address.
	Query     string    `db:"query"`
	CreatedBy string    `db:"created_by"`
	CreatedAt time.Time `db:"created_at"`
	UpdatedAt time.Time `db:"updated_at"`
}

const readViews = `
	SELECT id, project_id, kind, name, query, created_by, created_at, updated_at
	FROM saved_views
	WHERE project_id = $1`

// Views returns a project's views of a kind, ordered by name.
func (p People) Views(ctx context.Context, projectID uuid.UUID, kind ViewKind) (views []View, err error) {
	err = p.db.SelectContext(ctx, &views, readViews+` AND kind = $2 ORDER BY lower(name), id`, projectID, kind)
	return views, pg.Classify("list the saved views", err)
}

// View returns a view of a project, or db.ErrNotFound.
func (p People) View(ctx context.Context, projectID, id uuid.UUID) (view View, err error) {
	err = p.db.GetContext(ctx, &view, readViews+` AND id = $2`, projectID, id)
	return view, db.NotFound(KindView, pg.Classify("read a saved view", err))
}

// AddView stores a new view. It returns ErrNameTaken if the project has a view of this kind with the name, and a
// db.ProjectFullError if the project has reached the cap on views.
func (p People) AddView(ctx context.Context, view View) error {
	const insert = `
		INSERT INTO saved_views (id, project_id, kind, name, query, created_by)
		VALUES (:id, :project_id, :kind, :name, :query, :created_by)`
	return p.db.InTx(ctx, "store a view", func(tx *sqlx.Tx) error {
		if err := db.ViewCap.Admit(ctx, tx, view.ProjectID); err != nil {
			return err
		}
		_, err := tx.NamedExecContext(ctx, insert, view)
		return taken(pg.Classify("store a view", err))
	})
}

// ChangeView replaces the name and the query of a view. It returns ErrNameTaken as AddView does, or db.ErrNotFound.
func (p People) ChangeView(ctx context.Context, view View) error {
	const set = `
		UPDATE saved_views
		SET name = :name, query = :query, updated_at = now()
		WHERE id = :id AND project_id = :project_id`
	result, err := p.db.NamedExecContext(ctx, set, view)
	changed, err := pg.Affected("change a view", result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: KindView}
	}
	return taken(err)
}

// RemoveView removes a view of a project. It returns db.ErrNotFound if there is no such view.
func (p People) RemoveView(ctx context.Context, projectID, id uuid.UUID) error {
	result, err := p.db.ExecContext(ctx, `DELETE FROM saved_views WHERE project_id = $1 AND id = $2`, projectID, id)
	removed, err := pg.Affected("remove a view", result, err)
	if err == nil && removed == 0 {
		return &db.NotFoundError{Kind: KindView}
	}
	return err
}
