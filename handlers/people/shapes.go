package people

import (
	"context"
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"

	"wending/db/audit"
	"wending/db/people"
	"wending/handlers/rest"
)

// Account is an account. Its password is never returned.
type Account struct {
	ID           uuid.UUID     `json:"id"`
	Name         string        `json:"name" doc:"What is typed to sign in, and what reviews are signed with" example:"李雷"`
	IsAdmin      bool          `json:"is_admin" doc:"It manages accounts and projects, and may do everything in them"`
	IsDisabled   bool          `json:"is_disabled"`
	HasPassword  bool          `json:"has_password"`
	Passkeys     int           `json:"passkeys"`
	MustChange   bool          `json:"must_change_password" doc:"Its owner must choose another password before anything else"`
	NeedsPasskey bool          `json:"needs_passkey" doc:"The password alone does not sign in"`
	IsOfProvider bool          `json:"is_of_provider" doc:"It is signed in by the OpenID Connect provider"`
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

// Workspace is a project.
type Workspace struct {
	ID            uuid.UUID   `json:"id"`
	Name          string      `json:"name" example:"默认"`
	CallsPerDay   *int64      `json:"calls_per_day" doc:"null: any number" example:"20000"`
	UploadsPerDay *int        `json:"uploads_per_day" example:"200"`
	DiskBytes     *int64      `json:"disk_bytes" example:"10737418240"`
	Lanes         *int        `json:"lanes" doc:"Calls at once, over all workers" example:"16"`
	CostPerMonth  *string     `json:"cost_per_month" doc:"Decimal number that holds in each currency" example:"200"`
	Used          *Used       `json:"used" doc:"null in lists"`
	CreatedAt     rest.Moment `json:"created_at"`
	UpdatedAt     rest.Moment `json:"updated_at"`
}

// Settings are the settings of a project that its own administrators change.
type Settings struct {
	ReviewReasons   []string `json:"review_reasons" nullable:"false" maxItems:"10" doc:"Reasons of verdicts beside number, conclusion, omission, citation and format: at most 10 texts of at most 40 characters" example:"[\"语气不当\"]"`
	SmallestPoints  *float64 `json:"smallest_points,omitempty" minimum:"0" maximum:"100" doc:"The smallest difference of shares that matters, in percentage points; left as it is if absent" example:"1"`
	SmallestPercent *float64 `json:"smallest_percent,omitempty" minimum:"0" maximum:"100" doc:"The smallest difference of times, tokens and costs that matters, in percent; left as it is if absent" example:"5"`
}

// Used is the usage of a project; days and months are in Beijing time.
type Used struct {
	CallsToday    int64        `json:"calls_today" example:"1500"`
	UploadsToday  int          `json:"uploads_today" example:"3"`
	Bytes         int64        `json:"bytes" example:"73400320"`
	MeasuredAt    *rest.Moment `json:"measured_at" doc:"When the bytes were measured; null: not yet"`
	Lanes         int          `json:"lanes" example:"4"`
	CostThisMonth []Spent      `json:"cost_this_month"`
	NearlyUsedUp  []string     `json:"nearly_used_up" enum:"calls,uploads,disk,cost" doc:"Quotas of which at least 80 % is used"`
}

// Spent is the amount spent in a currency.
type Spent struct {
	Currency string `json:"currency" doc:"Empty where it is not known" example:"USD"`
	Cost     string `json:"cost" doc:"Decimal number" example:"12.5"`
}

// Member is a member of a project.
type Member struct {
	UserID     uuid.UUID   `json:"user_id"`
	Name       string      `json:"name" example:"李雷"`
	Role       people.Role `json:"role" example:"reviewer"`
	IsGranted  bool        `json:"is_granted" doc:"A group of the OpenID Connect provider gave it"`
	IsDisabled bool        `json:"is_disabled"`
	CreatedAt  rest.Moment `json:"created_at"`
}

// Token lets a program use the API. Its value is shown once, when it is created.
type Token struct {
	ID          uuid.UUID    `json:"id"`
	Name        string       `json:"name" example:"nightly pipeline"`
	Hint        string       `json:"hint" doc:"Its last characters" example:"Q2XZ"`
	ProjectID   uuid.UUID    `json:"project_id"`
	ProjectName string       `json:"project_name" example:"默认"`
	Role        people.Role  `json:"role" example:"editor"`
	Reach       people.Reach `json:"reach" doc:"Where the role holds: in the project; an administrator's also over accounts and projects (older tokens), or over everything (made on the command line)" enum:"project,accounts,installation" example:"project"`
	UserName    *string      `json:"user_name" doc:"Who made it; null: the command line" example:"李雷"`
	ExpiresAt   *rest.Moment `json:"expires_at" doc:"null: never"`
	UsedAt      *rest.Moment `json:"used_at" doc:"To the minute; null: not yet"`
	RevokedAt   *rest.Moment `json:"revoked_at"`
	CreatedAt   rest.Moment  `json:"created_at"`
}

// NewToken is a token with its value.
type NewToken struct {
	Token
	Value string `json:"token" doc:"Told only now" example:"wnd_4TVBHZ5QKJ2MWXN7R3CPLDA6EF"`
}

// Share is a link to a report. Its address is shown once, when it is created.
type Share struct {
	ID        uuid.UUID    `json:"id"`
	TaskID    uuid.UUID    `json:"task_id"`
	CreatedBy string       `json:"created_by" example:"李雷"`
	ExpiresAt rest.Moment  `json:"expires_at"`
	RevokedAt *rest.Moment `json:"revoked_at"`
	UsedAt    *rest.Moment `json:"used_at"`
	CreatedAt rest.Moment  `json:"created_at"`
}

// NewShare is a link with its address.
type NewShare struct {
	Share
	URL string `json:"url" doc:"Told only now" example:"https://wending.example/shared/4TVBHZ5QKJ2MWXN7R3CPLDA6EF"`
}

// Record is an entry of the audit.
type Record struct {
	Seq         int64           `json:"seq" doc:"1, 2, 3 … without gaps" example:"17"`
	At          rest.Moment     `json:"at"`
	Actor       string          `json:"actor" doc:"The account's name, or the token's; the address without accounts" example:"李雷"`
	ActorID     string          `json:"actor_id" doc:"The account's id; empty without"`
	TokenID     string          `json:"token_id" doc:"Of the token that was used; empty without"`
	Address     string          `json:"address" example:"10.0.0.7"`
	Via         string          `json:"via" values:"audited via" example:"page"`
	Action      string          `json:"action" example:"task.delete"`
	Object      string          `json:"object" doc:"What kind of thing it was done to" example:"task"`
	ObjectID    string          `json:"object_id"`
	ObjectName  string          `json:"object_name" example:"稳定性测试"`
	ProjectID   string          `json:"project_id"`
	ProjectName string          `json:"project_name" example:"默认"`
	Status      int             `json:"status" doc:"The answer's HTTP status; 0 where the process died before there was one: what was done is not known" example:"303"`
	Before      json.RawMessage `json:"before" doc:"Settings before, without secrets; null where none changed"`
	After       json.RawMessage `json:"after" doc:"Settings afterwards, without secrets; null where none changed"`
	RequestID   string          `json:"request_id"`
	Hash        string          `json:"hash" doc:"SHA-256 of the hash before and the entry, in hexadecimal: with seq it proves later that the entry is still there" example:"9f2c7b…"`
}

func settings(text string) json.RawMessage {
	if text == "" {
		return json.RawMessage("null")
	}
	return json.RawMessage(text)
}

func newRecord(e audit.Entry) Record {
	return Record{
		Seq: e.Seq, At: rest.Moment(e.At), Actor: e.Actor, ActorID: e.ActorID, TokenID: e.TokenID, Address: e.Address, Via: e.Via, Action: e.Action,
		Object: e.Object, ObjectID: e.ObjectID, ObjectName: e.ObjectName, ProjectID: e.ProjectID, ProjectName: e.ProjectName, Status: e.Status,
		Before: settings(e.Before), After: settings(e.After), RequestID: e.RequestID, Hash: hex.EncodeToString(e.Hash),
	}
}

func (h *handler) account(ctx context.Context, user people.User) (Account, error) {
	memberships, err := h.people.MembershipsOf(ctx, user.ID)
	account := Account{
		ID: user.ID, Name: user.Name, IsAdmin: user.IsAdmin, IsDisabled: user.DisabledAt != nil, HasPassword: user.PasswordHash != nil, Passkeys: user.Passkeys,
		MustChange: user.MustChangePassword, NeedsPasskey: user.NeedsPasskey, IsOfProvider: user.Subject != nil, Memberships: []AccountRole{}, SignedInAt: rest.MomentOf(user.SignedInAt),
		CreatedAt: rest.Moment(user.CreatedAt), UpdatedAt: rest.Moment(user.UpdatedAt),
	}
	for _, one := range memberships {
		account.Memberships = append(account.Memberships, AccountRole{one.ProjectID, one.ProjectName, one.Role})
	}
	return account, err
}

func newWorkspace(p people.Project, used *people.QuotaUsed) Workspace {
	workspace := Workspace{
		ID: p.ID, Name: p.Name, CallsPerDay: p.CallsPerDay, UploadsPerDay: p.UploadsPerDay, DiskBytes: p.DiskBytes, Lanes: p.Lanes, CostPerMonth: p.CostPerMonth,
		CreatedAt: rest.Moment(p.CreatedAt), UpdatedAt: rest.Moment(p.UpdatedAt),
	}
	if used != nil {
		workspace.Used = &Used{
			CallsToday: used.Calls, UploadsToday: used.Uploads, Bytes: used.Bytes, MeasuredAt: rest.MomentOf(used.MeasuredAt), Lanes: used.Lanes, CostThisMonth: []Spent{}, NearlyUsedUp: []string{},
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
		ID: t.ID, Name: t.Name, Hint: t.Hint, ProjectID: t.ProjectID, ProjectName: t.ProjectName, Role: t.Role, Reach: t.Reach, UserName: t.UserName, ExpiresAt: rest.MomentOf(t.ExpiresAt),
		UsedAt: rest.MomentOf(t.UsedAt), RevokedAt: rest.MomentOf(t.RevokedAt), CreatedAt: rest.Moment(t.CreatedAt),
	}
}

func newShare(s people.Share) Share {
	return Share{s.ID, s.TaskID, s.CreatedBy, rest.Moment(s.ExpiresAt), rest.MomentOf(s.RevokedAt), rest.MomentOf(s.UsedAt), rest.Moment(s.CreatedAt)}
}

// The bodies of requests.
type (
	newUser struct {
		Name       string      `json:"name" doc:"1–64 characters" example:"李雷"`
		Password   string      `json:"password" doc:"At least 10 characters, and not one that many people use" example:"correct horse battery"`
		Role       people.Role `json:"role,omitempty" doc:"In the project; viewer if absent" example:"reviewer"`
		ProjectID  string      `json:"project_id,omitempty" doc:"The first project if absent"`
		IsAdmin    bool        `json:"is_admin,omitempty"`
		MustChange bool        `json:"must_change_password,omitempty" doc:"Its owner must choose another password at the first sign-in; until then it can do nothing else"`
	}
	changedUser struct {
		Password   string `json:"password,omitempty" doc:"Ends its sessions"`
		IsAdmin    *bool  `json:"is_admin,omitempty"`
		IsDisabled *bool  `json:"is_disabled,omitempty" doc:"true ends its sessions"`
	}
	newProject struct {
		Name string `json:"name" doc:"1–64 characters" example:"法务"`
	}
	changedProject struct {
		Name          string  `json:"name,omitempty"`
		CallsPerDay   *int64  `json:"calls_per_day,omitempty" null:"true" doc:"null: any number"`
		UploadsPerDay *int    `json:"uploads_per_day,omitempty" null:"true"`
		DiskBytes     *int64  `json:"disk_bytes,omitempty" null:"true"`
		Lanes         *int    `json:"lanes,omitempty" null:"true"`
		CostPerMonth  *string `json:"cost_per_month,omitempty" null:"true" doc:"Decimal number"`
	}
	newMembership struct {
		UserID string      `json:"user_id,omitempty" doc:"Id of the account, or name"`
		Name   string      `json:"name,omitempty" example:"李雷"`
		Role   people.Role `json:"role" example:"reviewer"`
	}
	role struct {
		Role people.Role `json:"role" example:"editor"`
	}
	tokenBody struct {
		Name string      `json:"name" doc:"1–64 characters" example:"nightly pipeline"`
		Role people.Role `json:"role,omitempty" doc:"At most your own; viewer if absent" example:"editor"`
		Days int         `json:"expires_in_days,omitempty" doc:"0: never; 90 if absent" example:"90"`
	}
	shareBody struct {
		TaskID string `json:"task_id" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
		Days   int    `json:"expires_in_days,omitempty" doc:"1–3650; 7 if absent" example:"7"`
	}
)
