package tasklist

import (
	"context"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// NamesOf returns the current names of the datasets, agents and models in the library that tasks use, keyed by id.
func (l List) NamesOf(ctx context.Context, scope db.Scope, tasks []db.Task) (map[uuid.UUID]string, error) {
	list := `
		SELECT id, name FROM datasets WHERE id = ANY ($1) AND ` + db.Within("project_id", "$2") + `
		UNION ALL
		SELECT id, name FROM agents WHERE id = ANY ($1) AND ` + db.Within("project_id", "$2") + `
		UNION ALL
		SELECT id, name FROM models WHERE id = ANY ($1) AND ` + db.Within("project_id", "$2")
	var ids []uuid.UUID
	for _, task := range tasks {
		if task.DatasetID != nil {
			ids = append(ids, *task.DatasetID)
		}
		for _, target := range task.Targets {
			if target.LibraryID != nil {
				ids = append(ids, *target.LibraryID)
			}
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	var found []struct {
		ID   uuid.UUID `db:"id"`
		Name string    `db:"name"`
	}
	if err := l.store.Pool().SelectContext(ctx, &found, list, pq.Array(ids), scope); err != nil {
		return nil, pg.Classify("read the names of what tasks use", err)
	}
	names := make(map[uuid.UUID]string, len(found))
	for _, one := range found {
		names[one.ID] = one.Name
	}
	return names, nil
}
