package people

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"

	"wending/db/people"
	"wending/db/review"
	"wending/handlers/rest"
)

// Account is an account as the API returns it, without its password.
type Account struct {
	ID           uuid.UUID     `json:"id"`
	Name         string        `json:"name" doc:"Name for signing in; also shown on the account's reviews" example:"李雷"`
	IsAdmin      bool          `json:"is_admin" doc:"True if the account manages accounts and projects, with every right in all projects"`
	IsDisabled   bool          `json:"is_disabled"`
	HasPassword  bool          `json:"has_password"`
	Passkeys     int           `json:"passkeys"`
	MustChange   bool          `json:"must_change_password" doc:"True if the account must change its password before anything else"`
	NeedsPasskey bool          `json:"needs_passkey" doc:"True if signing in requires a passkey as well as the password"`
	IsOfProvider bool          `json:"is_of_provider" doc:"True if the account signs in through the OpenID Connect provider or the LDAP directory"`
	Memberships  []AccountRole `json:"memberships"`
	SignedInAt   *rest.Moment  `json:"signed_in_at"`
	CreatedAt    rest.Moment   `json:"created_at"`
	UpdatedAt    rest.Moment   `json:"updated_at"`
}

// AccountRole is an account's role in a project.
type AccountRole struct {
	ProjectID   uuid.UUID   `json:"project_id"`
	ProjectName string      `json:"project_name" example:"默认"`
	Role        people.Role `json:"role" example:"reviewer"`
}

// Workspace is a project as the API returns it.
type Workspace struct {
	ID            uuid.UUID   `json:"id"`
	Name          string      `json:"name" example:"默认"`
	CallsPerDay   *int64      `json:"calls_per_day" doc:"Maximum number of calls per day; null means unlimited" example:"20000"`
	UploadsPerDay *int        `json:"uploads_per_day" doc:"Maximum number of dataset uploads per day; null means unlimited" example:"200"`
	DiskBytes     *int64      `json:"disk_bytes" doc:"Maximum size of stored data, in bytes; null means unlimited" example:"10737418240"`
	Lanes         *int        `json:"lanes" doc:"Maximum number of simultaneous calls, over all workers; null means unlimited" example:"16"`
	CostPerMonth  *string     `json:"cost_per_month" doc:"Cost ceiling per month in each currency, a decimal number; null means unlimited" example:"200"`
	Used          *Used       `json:"used" doc:"Current usage; null in lists"`
	CreatedAt     rest.Moment `json:"created_at"`
	UpdatedAt     rest.Moment `json:"updated_at"`
}

// Settings are the settings of a project that its own administrators can change.
type Settings struct {
	ReviewReasons      []string                `json:"review_reasons" nullable:"false" maxItems:"10" doc:"Reasons for verdicts in addition to number, conclusion, omission, citation and format: at most 10 texts of at most 40 characters each" example:"[\"语气不当\"]"`
	ReviewInstructions *string                 `json:"review_instructions,omitempty" maxLength:"4000" doc:"Instructions for reviewers, shown beside the answers in review mode; unchanged if absent" example:"先看数字，再看语气。"`
	ReviewDimensions   *review.Dimensions      `json:"review_dimensions,omitempty" maxItems:"10" doc:"What reviewers rate besides giving a verdict: at most 10 dimensions, each with choices or with a range of whole numbers (min, max); unchanged if absent" example:"[{\"name\":\"语气\",\"choices\":[\"得体\",\"生硬\"]},{\"name\":\"准确性\",\"min\":1,\"max\":5}]"`
	SmallestPoints     *float64                `json:"smallest_points,omitempty" minimum:"0" maximum:"100" doc:"The smallest difference between shares that matters, in percentage points; unchanged if absent" example:"1"`
	SmallestPercent    *float64                `json:"smallest_percent,omitempty" minimum:"0" maximum:"100" doc:"The smallest difference between times, tokens or costs that matters, in percent; unchanged if absent" example:"5"`
	TraceURL           *string                 `json:"trace_url,omitempty" doc:"Template of addresses in the agents' tracing, to which the ids of runs lead: http or https, with {trace_id}, {agent_trace_id} or both after the host; empty means no links; unchanged if absent" example:"https://trace.example/{trace_id}"`
	SensitivePatterns  *[]string               `json:"sensitive_patterns,omitempty" maxItems:"100" doc:"Content that no launch may send: words, or RE2 regular expressions between slashes, of at most 200 characters each; unchanged if absent. An empty list turns the check off; a list equal to SENSITIVE_PATTERNS makes the project follow that setting" example:"[\"绝密\",\"/\\\\d{17}[0-9X]/\"]"`
	SensitiveAction    *people.SensitiveAction `json:"sensitive_action,omitempty" enum:"refuse,confirm" doc:"What happens when a launch matches sensitive_patterns; refuse: it is not started; confirm: it is started once its request confirms the places that were found (confirm_sensitive); unchanged if absent" example:"confirm"`
}

// Used is how much of its quotas a project has used; days and months are in Beijing time.
type Used struct {
	CallsToday    int64        `json:"calls_today" example:"1500"`
	UploadsToday  int          `json:"uploads_today" example:"3"`
	Bytes         int64        `json:"bytes" doc:"Size of stored data, in bytes" example:"73400320"`
	MeasuredAt    *rest.Moment `json:"measured_at" doc:"When bytes was measured; null if it has not been yet"`
	Lanes         int          `json:"lanes" doc:"Number of active lanes, each of which makes one call at a time" example:"4"`
	CostThisMonth []Spent      `json:"cost_this_month"`
	NearlyUsedUp  []string     `json:"nearly_used_up" enum:"calls,uploads,disk,cost" doc:"Quotas of which at least 80 % is used"`
}

// Spent is an amount of money in one currency.
type Spent struct {
	Currency string `json:"currency" doc:"Currency; empty if unknown" example:"USD"`
	Cost     string `json:"cost" doc:"Decimal number" example:"12.5"`
}

// Member is a member of a project.
type Member struct {
	UserID     uuid.UUID   `json:"user_id"`
	Name       string      `json:"name" example:"李雷"`
	Role       people.Role `json:"role" example:"reviewer"`
	IsGranted  bool        `json:"is_granted" doc:"True if the role was granted by a group of the OpenID Connect provider or the LDAP directory"`
	IsDisabled bool        `json:"is_disabled"`
	CreatedAt  rest.Moment `json:"created_at"`
}

// Token lets a program use the API. Its value is shown once, when it is created.
type Token struct {
	ID          uuid.UUID    `json:"id"`
	Name        string       `json:"name" example:"nightly pipeline"`
	Hint        string       `json:"hint" doc:"Last characters of the token" example:"Q2XZ"`
	ProjectID   uuid.UUID    `json:"project_id"`
	ProjectName string       `json:"project_name" example:"默认"`
	Role        people.Role  `json:"role" example:"editor"`
	Reach       people.Reach `json:"reach" doc:"Scope of the role: project: the project only; accounts: also accounts and projects (an administrator's older tokens); installation: everything (tokens created on the command line)" enum:"project,accounts,installation" example:"project"`
	UserName    *string      `json:"user_name" doc:"Name of the account that created the token; null if it was created on the command line" example:"李雷"`
	ExpiresAt   *rest.Moment `json:"expires_at" doc:"When the token expires; null means never"`
	UsedAt      *rest.Moment `json:"used_at" doc:"When the token was last used, to the minute; null if it never was"`
	RevokedAt   *rest.Moment `json:"revoked_at"`
	CreatedAt   rest.Moment  `json:"created_at"`
}

// NewToken is the response to creating a token, the only response that contains the token's value.
type NewToken struct {
	Token
	Value string `json:"token" doc:"Returned only in this response" example:"wnd_4TVBHZ5QKJ2MWXN7R3CPLDA6EF"`
}

// Share is a link that shows a part of a task to people without an account. Its address is shown once, when it is
// created.
type Share struct {
	ID        uuid.UUID          `json:"id"`
	TaskID    uuid.UUID          `json:"task_id"`
	Kind      people.ShareKind   `json:"kind" enum:"report,results,replay" doc:"What the link shows: the report, only the answers, or the replay of calls" example:"report"`
	UnitID    *int64             `json:"unit_id" doc:"The unit whose replay the link shows; null otherwise" example:"4711"`
	Number    *int               `json:"number" doc:"Number of the question whose replay the link shows, in the order of the report; null otherwise" example:"3"`
	Filters   *string            `json:"filters" doc:"The filters that chose the questions which the link shows; null if it shows all of them" example:"filter=different&column.city=%E5%8C%97%E4%BA%AC"`
	Questions *int               `json:"questions" doc:"The number of questions that the filters chose when the link was created; null if it shows all of them" example:"12"`
	Comments  people.CommentMode `json:"comments" enum:"off,project,readers" doc:"Whether readers may comment, and who sees the comments: only the project, or the other readers of the link, too" example:"project"`
	CreatedBy string             `json:"created_by" example:"李雷"`
	ExpiresAt rest.Moment        `json:"expires_at"`
	RevokedAt *rest.Moment       `json:"revoked_at"`
	UsedAt    *rest.Moment       `json:"used_at"`
	CreatedAt rest.Moment        `json:"created_at"`
}

// Comment is a comment by a reader of a link. Name and text are as the reader, who has not signed in, typed them.
type Comment struct {
	ID        int64        `json:"id" example:"17"`
	ShareID   uuid.UUID    `json:"share_id"`
	Number    *int         `json:"number" doc:"Number of the question that the comment is about, in the order of the report; null means the whole task" example:"3"`
	Name      string       `json:"name" doc:"As the reader typed it" example:"韩梅梅"`
	Text      string       `json:"text" example:"第二条与合同不符"`
	IsDone    bool         `json:"is_done" doc:"Whether somebody marked the comment as done" example:"false"`
	DoneBy    *string      `json:"done_by" example:"李雷"`
	DoneAt    *rest.Moment `json:"done_at"`
	CreatedAt rest.Moment  `json:"created_at"`
}

func newComment(c review.Comment) Comment {
	return Comment{c.ID, c.ShareID, c.Number, c.Author, c.Body, c.DoneAt != nil, c.DoneBy, rest.MomentOf(c.DoneAt),
		rest.Moment(c.CreatedAt)}
}

// NewShare is the response to creating a link, the only response that contains the link's address.
type NewShare struct {
	Share
	URL string `json:"url" doc:"Returned only in this response" example:"https://wending.example/shared/4TVBHZ5QKJ2MWXN7R3CPLDA6EF"`
}

// Record is an entry of the audit log.
type Record struct {
	Seq         int64           `json:"seq" doc:"Number of the entry: 1, 2, 3 … without gaps" example:"17"`
	At          rest.Moment     `json:"at"`
	Actor       string          `json:"actor" doc:"Name of the account or token; the address if there are no accounts" example:"李雷"`
	ActorID     string          `json:"actor_id" doc:"Id of the account; empty if there was none"`
	TokenID     string          `json:"token_id" doc:"Id of the token that was used; empty if there was none"`
	Address     string          `json:"address" example:"10.0.0.7"`
	Via         string          `json:"via" values:"audited via" example:"page"`
	Action      string          `json:"action" example:"task.delete"`
	Object      string          `json:"object" doc:"Kind of the object" example:"task"`
	ObjectID    string          `json:"object_id"`
	ObjectName  string          `json:"object_name" example:"稳定性测试"`
	ProjectID   string          `json:"project_id"`
	ProjectName string          `json:"project_name" example:"默认"`
	Status      int             `json:"status" doc:"HTTP status of the response; 0 if the process died before responding, so that the outcome is unknown" example:"303"`
	Before      json.RawMessage `json:"before" doc:"Settings before the change, without secrets; null if none changed"`
	After       json.RawMessage `json:"after" doc:"Settings after the change, without secrets; null if none changed"`
	RequestID   string          `json:"request_id"`
	Hash        string          `json:"hash" doc:"SHA-256 of the previous entry's hash and this entry, in hexadecimal; recorded together with seq, it can later prove that the entry is still in the log" example:"9f2c7b…"`
}

func settings(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

func newRecord(e people.AuditEntry) Record {
	return Record{
		Seq: e.Seq, At: rest.Moment(e.At), Actor: e.Actor, ActorID: e.ActorID, TokenID: e.TokenID, Address: e.Address,
		Via: e.Via, Action: e.Action,
		Object: e.Object, ObjectID: e.ObjectID, ObjectName: e.ObjectName, ProjectID: e.ProjectID, ProjectName: e.ProjectName,
		Status: e.Status,
		Before: settings(e.Before), After: settings(e.After), RequestID: e.RequestID, Hash: hex.EncodeToString(e.Hash),
	}
}

func (h *handler) account(ctx context.Context, user people.User) (Account, error) {
	memberships, err := h.people.MembershipsOf(ctx, user.ID)
	account := Account{
		ID: user.ID, Name: user.Name, IsAdmin: user.IsAdmin, IsDisabled: user.DisabledAt != nil,
		HasPassword: user.PasswordHash != nil, Passkeys: user.Passkeys,
		MustChange: user.MustChangePassword, NeedsPasskey: user.NeedsPasskey, IsOfProvider: user.Subject != nil,
		Memberships: []AccountRole{}, SignedInAt: rest.MomentOf(user.SignedInAt),
		CreatedAt: rest.Moment(user.CreatedAt), UpdatedAt: rest.Moment(user.UpdatedAt),
	}
	for _, one := range memberships {
		account.Memberships = append(account.Memberships, AccountRole{one.ProjectID, one.ProjectName, one.Role})
	}
	return account, err
}

func newWorkspace(p people.Project, used *people.QuotaUsed) Workspace {
	workspace := Workspace{
		ID: p.ID, Name: p.Name, CallsPerDay: p.CallsPerDay, UploadsPerDay: p.UploadsPerDay, DiskBytes: p.DiskBytes,
		Lanes: p.Lanes, CostPerMonth: p.CostPerMonth,
		CreatedAt: rest.Moment(p.CreatedAt), UpdatedAt: rest.Moment(p.UpdatedAt),
	}
	if used != nil {
		workspace.Used = &Used{
			CallsToday: used.Calls, UploadsToday: used.Uploads, Bytes: used.Bytes, MeasuredAt: rest.MomentOf(used.MeasuredAt),
			Lanes: used.Lanes, CostThisMonth: []Spent{}, NearlyUsedUp: []string{},
		}
		for _, near := range used.Near(p.Quota) {
			workspace.Used.NearlyUsedUp = append(workspace.Used.NearlyUsedUp, near.What)
		}
		for _, sum := range used.Cost {
			workspace.Used.CostThisMonth = append(workspace.Used.CostThisMonth, Spent{sum.Currency, sum.Cost})
		}
	}
	return workspace
}

func newMember(m people.Member) Member {
	return Member{m.UserID, m.UserName, m.Role, m.IsGranted, m.DisabledAt != nil, rest.Moment(m.CreatedAt)}
}

func newToken(t people.Token) Token {
	return Token{
		ID: t.ID, Name: t.Name, Hint: t.Hint, ProjectID: t.ProjectID, ProjectName: t.ProjectName, Role: t.Role,
		Reach: t.Reach, UserName: t.UserName, ExpiresAt: rest.MomentOf(t.ExpiresAt),
		UsedAt: rest.MomentOf(t.UsedAt), RevokedAt: rest.MomentOf(t.RevokedAt), CreatedAt: rest.Moment(t.CreatedAt),
	}
}

func newShare(s people.Share) Share {
	var questions *int
	if s.ItemIDs != nil {
		chosen := len(s.ItemIDs)
		questions = &chosen
	}
	return Share{s.ID, s.TaskID, s.Kind, s.UnitID, s.Number, s.Filters, questions, s.Comments, s.CreatedBy,
		rest.Moment(s.ExpiresAt), rest.MomentOf(s.RevokedAt), rest.MomentOf(s.UsedAt), rest.Moment(s.CreatedAt)}
}

// The bodies of requests.
type (
	newUser struct {
		Name       string      `json:"name" doc:"1–64 characters" example:"李雷"`
		Password   string      `json:"password" doc:"At least 10 characters, and not a commonly used password" example:"correct horse battery"`
		Role       people.Role `json:"role,omitempty" doc:"Role in the project; viewer if absent" example:"reviewer"`
		ProjectID  string      `json:"project_id,omitempty" doc:"Id of the project; the first project if absent"`
		IsAdmin    bool        `json:"is_admin,omitempty"`
		MustChange bool        `json:"must_change_password,omitempty" doc:"True if the account must change its password when it first signs in, before anything else"`
	}
	changedUser struct {
		Password   string `json:"password,omitempty" doc:"New password; ends the account's sessions"`
		IsAdmin    *bool  `json:"is_admin,omitempty" doc:"Whether the account manages accounts and projects; unchanged if absent"`
		IsDisabled *bool  `json:"is_disabled,omitempty" doc:"true disables the account and ends its sessions"`
	}
	newProject struct {
		Name string `json:"name" doc:"1–64 characters" example:"法务"`
	}
	changedProject struct {
		Name          string  `json:"name,omitempty"`
		CallsPerDay   *int64  `json:"calls_per_day,omitempty" null:"true" doc:"null means unlimited"`
		UploadsPerDay *int    `json:"uploads_per_day,omitempty" null:"true" doc:"null means unlimited"`
		DiskBytes     *int64  `json:"disk_bytes,omitempty" null:"true" doc:"null means unlimited"`
		Lanes         *int    `json:"lanes,omitempty" null:"true" doc:"null means unlimited"`
		CostPerMonth  *string `json:"cost_per_month,omitempty" null:"true" doc:"Decimal number; null means unlimited"`
	}
	newMembership struct {
		UserID string      `json:"user_id,omitempty" doc:"Id of the account; alternatively, give its name"`
		Name   string      `json:"name,omitempty" example:"李雷"`
		Role   people.Role `json:"role" example:"reviewer"`
	}
	role struct {
		Role people.Role `json:"role" example:"editor"`
	}
	tokenBody struct {
		Name string      `json:"name" doc:"1–64 characters" example:"nightly pipeline"`
		Role people.Role `json:"role,omitempty" doc:"Role of the token, at most your own; viewer if absent" example:"editor"`
		Days int         `json:"expires_in_days,omitempty" doc:"Days until the token expires; 0 means never; 90 if absent" example:"90"`
	}
	shareBody struct {
		TaskID     string             `json:"task_id" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
		Kind       people.ShareKind   `json:"kind,omitempty" enum:"report,results,replay" doc:"What the link shows; report if absent. A replay needs question_id or unit_id." example:"replay"`
		QuestionID string             `json:"question_id,omitempty" doc:"For a replay: the question whose current runs the link shows" example:"q1"`
		UnitID     int64              `json:"unit_id,omitempty" doc:"For a replay: the unit that the link shows" example:"4711"`
		Filters    string             `json:"filters,omitempty" maxLength:"4000" doc:"Only the answers to the questions that these filters select now, as a query like that of the address of a task's answers; only for results, which is the default with filters" example:"filter=different&column.city=北京"`
		Comments   people.CommentMode `json:"comments,omitempty" enum:"off,project,readers" doc:"Whether readers may comment, and who sees the comments; off if absent" example:"project"`
		Days       int                `json:"expires_in_days,omitempty" doc:"Days until the link expires, 1–3650; 7 if absent" example:"7"`
	}
)
