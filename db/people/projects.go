package people

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
	"wending/db/review"
)

// Project is a row of projects.
type Project struct {
	ID        uuid.UUID `db:"id"`
	Name      string    `db:"name"`
	CreatedAt time.Time `db:"created_at"`
	UpdatedAt time.Time `db:"updated_at"`
	Quota
	// ReviewReasons are the project's own review reasons, in addition to the ones that every project has.
	ReviewReasons pq.StringArray `db:"review_reasons"`
	review.Rubric
	// SmallestPoints is the smallest difference between shares that matters to the project, in percentage points;
	// SmallestPercent is the smallest difference between times, tokens or costs, in percent.
	SmallestPoints  float64 `db:"smallest_points"`
	SmallestPercent float64 `db:"smallest_percent"`
	// TraceURL is the template for links to agents' traces.
	TraceURL TraceTemplate `db:"trace_url"`
	// SensitivePatterns describe what no launch may send, in the syntax of ParsePattern; nil means the installation's
	// patterns.
	SensitivePatterns pq.StringArray `db:"sensitive_patterns"`
	// SensitiveAction is what happens when a launch matches them.
	SensitiveAction SensitiveAction `db:"sensitive_action"`
}

// Quota is what a project may use; nil fields mean no limit.
type Quota struct {
	UploadsPerDay *int   `db:"uploads_per_day"`
	DiskBytes     *int64 `db:"disk_bytes"`
	CallsPerDay   *int64 `db:"calls_per_day"`
	Lanes         *int   `db:"lanes"`
	// CostPerMonth is a decimal number that applies to each currency.
	CostPerMonth *string `db:"cost_per_month"`
}

const projectColumns = `p.id, p.name, p.created_at, p.updated_at, p.uploads_per_day, p.disk_bytes, p.calls_per_day, p.lanes, trim_scale(p.cost_per_month) AS cost_per_month, p.review_reasons, p.review_instructions, p.review_dimensions, p.smallest_points, p.smallest_percent, coalesce(p.trace_url, '') AS trace_url, p.sensitive_patterns, p.sensitive_action`

// Project returns a project, or db.ErrNotFound.
func (p People) Project(ctx context.Context, id uuid.UUID) (found Project, err error) {
	err = p.db.GetContext(ctx, &found, `SELECT `+projectColumns+` FROM projects p WHERE id = $1`, id)
	return found, db.NotFound(KindProject, pg.Classify("read a project", err))
}

// ProjectNamed returns the project with the given name, compared without regard to case, or db.ErrNotFound.
func (p People) ProjectNamed(ctx context.Context, name string) (found Project, err error) {
	err = p.db.GetContext(ctx, &found, `SELECT `+projectColumns+` FROM projects p WHERE lower(name) = lower($1)`, name)
	return found, db.NotFound(KindProject, pg.Classify("read a project", err))
}

// Projects returns all projects, oldest first.
func (p People) Projects(ctx context.Context) (projects []Project, err error) {
	err = p.db.SelectContext(ctx, &projects, `SELECT `+projectColumns+` FROM projects p ORDER BY created_at, id`)
	return projects, pg.Classify("list the projects", err)
}

// AddProject stores a new project. It returns ErrNameTaken if another project has its name.
func (p People) AddProject(ctx context.Context, project Project) error {
	_, err := p.db.ExecContext(ctx, `INSERT INTO projects (id, name) VALUES ($1, $2)`, project.ID, project.Name)
	return taken(pg.Classify("store a project", err))
}

// ChangeProject replaces a project's name and quotas. It returns db.ErrNotFound if there is no such project, and
// ErrNameTaken if another project has the name.
func (p People) ChangeProject(ctx context.Context, project Project) error {
	const set = `
		UPDATE projects
		SET name = :name, uploads_per_day = :uploads_per_day, disk_bytes = :disk_bytes, calls_per_day = :calls_per_day,
		lanes = :lanes,
			cost_per_month = CAST(:cost_per_month AS numeric), updated_at = now()
		WHERE id = :id`
	result, err := p.db.NamedExecContext(ctx, set, project)
	changed, err := pg.Affected("change a project", result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: KindProject}
	}
	return taken(err)
}

// ProjectSettings holds the settings that a project's own administrators can change. ReviewReasons always replace the
// project's reasons; any other field changes nothing if it is nil. An empty list of ReviewDimensions removes them.
type ProjectSettings struct {
	ReviewReasons                   []string
	ReviewInstructions              *string
	ReviewDimensions                review.Dimensions
	SmallestPoints, SmallestPercent *float64
	// TraceURL is the new template for links to traces; if it is empty, there are no links.
	TraceURL *TraceTemplate
	// SensitivePatterns replace the project's patterns; nil leaves them as they are. With UsualPatterns, the project
	// follows the installation's patterns instead.
	SensitivePatterns []string
	UsualPatterns     bool
	SensitiveAction   *SensitiveAction
}

// SetProjectSettings changes the settings of a project. It returns db.ErrNotFound if there is no such project.
func (p People) SetProjectSettings(ctx context.Context, id uuid.UUID, settings ProjectSettings) error {
	const set = `
		UPDATE projects
		SET review_reasons = $2, review_instructions = coalesce($9, review_instructions),
		review_dimensions = coalesce(CAST($10 AS jsonb), review_dimensions), smallest_points = coalesce($3, smallest_points),
		smallest_percent = coalesce($4, smallest_percent),
		trace_url = nullif(coalesce($5, trace_url), ''),
		sensitive_patterns = CASE WHEN NOT $7 THEN coalesce($6, sensitive_patterns) END,
		sensitive_action = coalesce($8, sensitive_action), updated_at = now()
		WHERE id = $1`
	return p.changeRow(ctx, KindProject, "set a project's settings", set, id,
		append(pq.StringArray{}, settings.ReviewReasons...),
		settings.SmallestPoints, settings.SmallestPercent, settings.TraceURL,
		pq.StringArray(settings.SensitivePatterns), settings.UsualPatterns, settings.SensitiveAction,
		settings.ReviewInstructions, settings.ReviewDimensions)
}

// Membership is a project that an account belongs to, and the account's role in it.
type Membership struct {
	ProjectID   uuid.UUID `db:"project_id"`
	ProjectName string    `db:"project_name"`
	Role        Role      `db:"role"`
	// IsGranted reports that the role comes from a group that a provider or directory reports.
	IsGranted bool `db:"is_granted"`
}

// Member is an account that belongs to a project, with its role there.
type Member struct {
	UserID     uuid.UUID  `db:"user_id"`
	UserName   string     `db:"user_name"`
	DisabledAt *time.Time `db:"disabled_at"`
	Role       Role       `db:"role"`
	IsGranted  bool       `db:"is_granted"`
	CreatedAt  time.Time  `db:"created_at"`
}

// MembershipsOf returns the projects of an account in the order in which it joined them.
func (p People) MembershipsOf(ctx context.Context, userID uuid.UUID) (memberships []Membership, err error) {
	const list = `
		SELECT m.project_id, p.name AS project_name, m.role, m.is_granted
		FROM memberships m
		JOIN projects p ON p.id = m.project_id
		WHERE m.user_id = $1
		ORDER BY m.created_at, p.created_at, p.id`
	err = p.db.SelectContext(ctx, &memberships, list, userID)
	return memberships, pg.Classify("list the projects of an account", err)
}

// Members returns the members of a project, ordered by name.
func (p People) Members(ctx context.Context, projectID uuid.UUID) (members []Member, err error) {
	const list = `
		SELECT m.user_id, u.name AS user_name, u.disabled_at, m.role, m.is_granted, m.created_at
		FROM memberships m
		JOIN users u ON u.id = m.user_id
		WHERE m.project_id = $1
		ORDER BY lower(u.name), u.id`
	err = p.db.SelectContext(ctx, &members, list, projectID)
	return members, pg.Classify("list the members", err)
}

// SetMember gives an account a role in a project. It returns db.ErrNotFound if there is no such account.
func (p People) SetMember(ctx context.Context, projectID, userID uuid.UUID, role Role) error {
	return p.change(ctx, "set a member's role", func(tx *sqlx.Tx) error {
		return setMember(ctx, tx, projectID, userID, role, false)
	})
}

func setMember(ctx context.Context, tx *sqlx.Tx, projectID, userID uuid.UUID, role Role, isGranted bool) error {
	const set = `
		INSERT INTO memberships (project_id, user_id, role, is_granted) VALUES ($1, $2, $3, $4)
		ON CONFLICT (project_id, user_id) DO UPDATE SET role = excluded.role, is_granted = excluded.is_granted`
	_, err := tx.ExecContext(ctx, set, projectID, userID, role, isGranted)
	err = pg.Classify("set a member's role", err)
	if errors.Is(err, db.ErrGone) {
		return &db.NotFoundError{Kind: KindUser}
	}
	return err
}

// RemoveMember removes an account from a project. It returns db.ErrNotFound if the account is not a member.
func (p People) RemoveMember(ctx context.Context, projectID, userID uuid.UUID) error {
	return p.changeRow(ctx, KindUser, "remove a member", `DELETE FROM memberships WHERE project_id = $1
		AND user_id = $2`, projectID, userID)
}

// places maps each kind of object to the statement that finds its project and name.
var places = map[db.Kind]string{
	db.KindTask: `SELECT project_id, task_name AS name FROM evaluation_tasks WHERE id = $1`,
	KindProject: `SELECT id AS project_id, name FROM projects WHERE id = $1`,
	KindToken:   `SELECT project_id, name FROM tokens WHERE id = $1`,
	KindView:    `SELECT project_id, name FROM saved_views WHERE id = $1`,
	KindShare: `SELECT t.project_id, t.task_name AS name FROM shares s JOIN evaluation_tasks t ON t.id = s.task_id
		WHERE s.id = $1`,
}

// ProjectOf returns the project and the name of a task, a token, a link, a view or a project itself, or db.ErrNotFound.
func (p People) ProjectOf(ctx context.Context, kind db.Kind, id uuid.UUID) (project uuid.UUID, name string, err error) {
	return p.placeOf(ctx, places[kind], id, kind)
}

// ProjectOfEntry returns the project and the name of an entry in one of the library's tables, or db.ErrNotFound.
func (p People) ProjectOfEntry(ctx context.Context, table string,
	id uuid.UUID) (project uuid.UUID, name string, err error) {
	return p.placeOf(ctx, `SELECT project_id, name FROM `+table+` WHERE id = $1`, id, "entry")
}

func (p People) placeOf(ctx context.Context, read string, id uuid.UUID,
	kind db.Kind) (project uuid.UUID, name string, err error) {
	var found struct {
		ProjectID uuid.UUID `db:"project_id"`
		Name      string    `db:"name"`
	}
	err = p.db.GetContext(ctx, &found, read, id)
	return found.ProjectID, found.Name, db.NotFound(kind, pg.Classify("look for an object's project", err))
}
