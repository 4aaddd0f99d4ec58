package db

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// A Cap limits how many objects of one kind a project may have, regardless of its quotas.
type Cap struct {
	// What names the kind of object; the catalogues have texts for it.
	What string
	Most int
	// count counts the objects of the project $1.
	count string
}

// A project's caps. Archived schedules do not count, nor do report links and tokens that are no longer valid.
var (
	ScheduleCap = Cap{"schedules", 100, `SELECT count(*) FROM schedules WHERE project_id = $1 AND archived_at IS NULL`}
	ShareCap    = Cap{"shares", 200, `
		SELECT count(*) FROM shares s
		JOIN evaluation_tasks t ON t.id = s.task_id
		WHERE t.project_id = $1 AND s.revoked_at IS NULL AND s.expires_at > now()`}
	ViewCap  = Cap{"views", 100, `SELECT count(*) FROM saved_views WHERE project_id = $1`}
	TokenCap = Cap{"tokens", 100, `
		SELECT count(*) FROM tokens
		WHERE project_id = $1 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())`}
)

// ProjectFullError means that a project has reached one of its caps.
type ProjectFullError struct{ Cap }

func (e *ProjectFullError) Error() string {
	return fmt.Sprintf("the project has %d %s, and may not have more", e.Most, e.What)
}

// Admit returns a ProjectFullError if a project has reached the cap. Until the transaction ends, other calls for the
// same project wait.
func (c Cap) Admit(ctx context.Context, tx *sqlx.Tx, projectID uuid.UUID) error {
	if _, err := tx.ExecContext(ctx, `SELECT FROM projects WHERE id = $1 FOR NO KEY UPDATE`, projectID); err != nil {
		return pg.Classify("lock the project", err)
	}
	var has int
	if err := tx.GetContext(ctx, &has, c.count, projectID); err != nil {
		return pg.Classify("count the project's "+c.What, err)
	}
	if has >= c.Most {
		return &ProjectFullError{c}
	}
	return nil
}
