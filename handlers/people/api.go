package people

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/audit"
	"wending/db/people"
	"wending/db/project"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
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

// AccountRole is what an account may do in a project.
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

// Used is what a project uses; days and months are those of Beijing.
type Used struct {
	CallsToday    int64        `json:"calls_today" example:"1500"`
	UploadsToday  int          `json:"uploads_today" example:"3"`
	Bytes         int64        `json:"bytes" example:"73400320"`
	MeasuredAt    *rest.Moment `json:"measured_at" doc:"When the bytes were measured; null: not yet"`
	Lanes         int          `json:"lanes" example:"4"`
	CostThisMonth []Spent      `json:"cost_this_month"`
	NearlyUsedUp  []string     `json:"nearly_used_up" enum:"calls,uploads,disk,cost" doc:"Quotas of which at least 80 % is used"`
}

// Spent is what was spent in a currency.
type Spent struct {
	Currency string `json:"currency" doc:"Empty where it is not known" example:"USD"`
	Cost     string `json:"cost" doc:"Decimal number" example:"12.5"`
}

// Member is somebody in a project.
type Member struct {
	UserID     uuid.UUID   `json:"user_id"`
	Name       string      `json:"name" example:"李雷"`
	Role       people.Role `json:"role" example:"reviewer"`
	IsGranted  bool        `json:"is_granted" doc:"A group of the OpenID Connect provider gave it"`
	IsDisabled bool        `json:"is_disabled"`
	CreatedAt  rest.Moment `json:"created_at"`
}

// Token lets a program use the API. Its value is told once, when it is made.
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

// Share is a link to a report. Its address is told once, when it is made.
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

// output is a body.
type output[T any] struct{ Body T }

// list is a page of a list.
type list[T any] struct {
	Body struct {
		Items      []T             `json:"items"`
		Pagination rest.Pagination `json:"pagination"`
	}
}

func newList[T any](items []T, page db.Page, total int) *list[T] {
	l := &list[T]{}
	l.Body.Items, l.Body.Pagination = items, rest.NewPagination(page, total)
	if l.Body.Items == nil {
		l.Body.Items = []T{}
	}
	return l
}

// ObjectPath is the id of an object in a path.
type ObjectPath struct {
	ID string `path:"id" doc:"Id" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

type bodyInput struct{ rest.FormInput }

type changeInput struct {
	ObjectPath
	rest.FormInput
}

// MemberPath is an account in a project.
type MemberPath struct {
	ObjectPath
	UserID string `path:"user_id" doc:"Id of the account" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

type pageInput struct {
	rest.PageQuery
}

// refused is the first fault, which tells of the others.
func refused(faults []form.FieldFault) error {
	all := make([]*fault.Fault, len(faults))
	for n, f := range faults {
		all[n] = f.Fault
	}
	return fault.Join(all...)
}

// RegisterAPI adds the endpoints.
func RegisterAPI(api huma.API, config Config) {
	h := newHandler(config)
	h.registerUsers(api)
	h.registerProjects(api)
	h.registerMembers(api)
	h.registerTokens(api)
	h.registerShares(api)
	h.registerAudit(api)
}

const tag = "people"

func (h *handler) registerUsers(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/users"
	type usersInput struct {
		rest.PageQuery
		Query string `query:"query" doc:"Part of the name" example:"李"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{Method: http.MethodGet, Path: path, ID: "list-users", Tag: tag, Summary: "List the accounts, by name"},
		func(ctx context.Context, input *usersInput) (*list[Account], error) {
			users, total, err := h.people.Users(ctx, request.SearchText(input.Query), input.Window())
			if err != nil {
				return nil, err
			}
			accounts := make([]Account, len(users))
			for n, user := range users {
				if accounts[n], err = h.account(ctx, user); err != nil {
					return nil, err
				}
			}
			return newList(accounts, input.Window(), total), nil
		})
	type newUser struct {
		Name       string      `json:"name" doc:"1–64 characters" example:"李雷"`
		Password   string      `json:"password" doc:"At least 10 characters, and not one that many people use" example:"correct horse battery"`
		Role       people.Role `json:"role,omitempty" doc:"In the project; viewer if absent" example:"reviewer"`
		ProjectID  string      `json:"project_id,omitempty" doc:"The first project if absent"`
		IsAdmin    bool        `json:"is_admin,omitempty"`
		MustChange bool        `json:"must_change_password,omitempty" doc:"Its owner must choose another password at the first sign-in; until then it can do nothing else"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-user", Tag: tag, Summary: "Make an account", Status: http.StatusCreated, Faults: []string{fault.CodeParameterInvalid},
		Body: rest.JSONBody[newUser](schemas),
	}, func(ctx context.Context, input *bodyInput) (*output[Account], error) {
		if !h.HasPasswords {
			return nil, fault.New(fault.CodeForbidden).WithMessage("users.of_provider.only")
		}
		user, faults, err := h.makeUser(ctx, input.Form)
		if err != nil {
			return nil, err
		}
		if len(faults) > 0 {
			return nil, refused(faults)
		}
		account, err := h.account(ctx, user)
		return &output[Account]{account}, err
	})
	rest.Register(api, h.Failed, rest.Endpoint{Method: http.MethodGet, Path: path + "/{id}", ID: "get-user", Tag: tag, Summary: "Get an account", Faults: []string{fault.CodeNotFound}},
		func(ctx context.Context, input *ObjectPath) (*output[Account], error) {
			user, err := h.userByID(ctx, input.ID)
			if err != nil {
				return nil, err
			}
			account, err := h.account(ctx, user)
			return &output[Account]{account}, err
		})
	type changedUser struct {
		Password   string `json:"password,omitempty" doc:"Ends its sessions"`
		IsAdmin    *bool  `json:"is_admin,omitempty"`
		IsDisabled *bool  `json:"is_disabled,omitempty" doc:"true ends its sessions"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPatch, Path: path + "/{id}", ID: "change-user", Tag: tag, Summary: "Change an account",
		Description: "Somebody must always be left who may manage accounts: otherwise 409 TASK_STATE_CONFLICT.", Faults: []string{fault.CodeNotFound, fault.CodeParameterInvalid, fault.CodeTaskStateConflict},
		Body: rest.JSONBody[changedUser](schemas),
	}, func(ctx context.Context, input *changeInput) (*output[Account], error) {
		user, err := h.userByID(ctx, input.ID)
		if err != nil {
			return nil, err
		}
		faults, err := h.changeUser(ctx, user, input.Form)
		if err == nil && len(faults) > 0 {
			err = refused(faults)
		}
		if err != nil {
			return nil, err
		}
		if user, err = h.people.User(ctx, user.ID); err != nil {
			return nil, err
		}
		account, err := h.account(ctx, user)
		return &output[Account]{account}, err
	})
}

func (h *handler) userByID(ctx context.Context, text string) (people.User, error) {
	id, err := request.ID(text, people.KindUser)
	if err != nil {
		return people.User{}, err
	}
	return h.people.User(ctx, id)
}

func (h *handler) projectByID(ctx context.Context, text string) (people.Project, error) {
	id, err := request.ID(text, people.KindProject)
	if err != nil {
		return people.Project{}, err
	}
	return h.people.Project(ctx, id)
}

func (h *handler) registerProjects(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/projects"
	rest.Register(api, h.Failed, rest.Endpoint{Method: http.MethodGet, Path: path, ID: "list-projects", Tag: tag, Summary: "List the projects that you are in"},
		func(ctx context.Context, input *pageInput) (*list[Workspace], error) {
			visible, err := h.visible(ctx)
			if err != nil {
				return nil, err
			}
			window := input.Window()
			var workspaces []Workspace
			for _, one := range visible[min(len(visible), window.Offset()):min(len(visible), window.Offset()+window.Size)] {
				project, err := h.people.Project(ctx, one.ProjectID)
				if err != nil {
					return nil, err
				}
				workspaces = append(workspaces, newWorkspace(project, nil))
			}
			return newList(workspaces, window, len(visible)), nil
		})
	type newProject struct {
		Name string `json:"name" doc:"1–64 characters" example:"法务"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-project", Tag: tag, Summary: "Make a project", Status: http.StatusCreated, Faults: []string{fault.CodeParameterInvalid},
		Body: rest.JSONBody[newProject](schemas),
	}, func(ctx context.Context, input *bodyInput) (*output[Workspace], error) {
		project, faults, err := h.makeProject(ctx, input.Form)
		if err == nil && len(faults) > 0 {
			err = refused(faults)
		}
		return &output[Workspace]{newWorkspace(project, nil)}, err
	})
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}", ID: "get-project", Tag: tag, Summary: "Get a project, with what it uses of its quotas", Faults: []string{fault.CodeNotFound},
	}, func(ctx context.Context, input *ObjectPath) (*output[Workspace], error) {
		project, err := h.projectByID(ctx, input.ID)
		if err != nil {
			return nil, err
		}
		used, err := h.quotas.Used(ctx, project.ID)
		return &output[Workspace]{newWorkspace(project, &used)}, err
	})
	type changedProject struct {
		Name          string  `json:"name,omitempty"`
		CallsPerDay   *int64  `json:"calls_per_day,omitempty" null:"true" doc:"null: any number"`
		UploadsPerDay *int    `json:"uploads_per_day,omitempty" null:"true"`
		DiskBytes     *int64  `json:"disk_bytes,omitempty" null:"true"`
		Lanes         *int    `json:"lanes,omitempty" null:"true"`
		CostPerMonth  *string `json:"cost_per_month,omitempty" null:"true" doc:"Decimal number"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPatch, Path: path + "/{id}", ID: "change-project", Tag: tag, Summary: "Change a project's name and quotas",
		Description: "Over a quota new work is refused with QUOTA_EXCEEDED, and lanes wait; what runs goes on, except that launches are stopped at the month's ceiling of cost.",
		Faults:      []string{fault.CodeNotFound, fault.CodeParameterInvalid}, Body: rest.JSONBody[changedProject](schemas),
	}, func(ctx context.Context, input *changeInput) (*output[Workspace], error) {
		project, err := h.projectByID(ctx, input.ID)
		if err != nil {
			return nil, err
		}
		project, faults, err := h.applyProject(ctx, project, input.Form)
		if err == nil && len(faults) > 0 {
			err = refused(faults)
		}
		return &output[Workspace]{newWorkspace(project, nil)}, err
	})
}

func (h *handler) registerMembers(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/projects/{id}/members"
	rest.Register(api, h.Failed, rest.Endpoint{Method: http.MethodGet, Path: path, ID: "list-members", Tag: tag, Summary: "List who is in a project", Faults: []string{fault.CodeNotFound}},
		func(ctx context.Context, input *struct {
			ObjectPath
			rest.PageQuery
		},
		) (*list[Member], error) {
			project, err := h.projectByID(ctx, input.ID)
			if err != nil {
				return nil, err
			}
			all, err := h.people.Members(ctx, project.ID)
			if err != nil {
				return nil, err
			}
			window := input.Window()
			var members []Member
			for _, one := range all[min(len(all), window.Offset()):min(len(all), window.Offset()+window.Size)] {
				members = append(members, newMember(one))
			}
			return newList(members, window, len(all)), nil
		})
	type newMembership struct {
		UserID string      `json:"user_id,omitempty" doc:"Id of the account, or name"`
		Name   string      `json:"name,omitempty" example:"李雷"`
		Role   people.Role `json:"role" example:"reviewer"`
	}
	give := func(ctx context.Context, project string, submitted *form.Upload) (*output[Member], error) {
		found, err := h.projectByID(ctx, project)
		if err != nil {
			return nil, err
		}
		member, faults, err := h.giveRole(ctx, found, submitted)
		if err == nil && len(faults) > 0 {
			err = refused(faults)
		}
		return &output[Member]{newMember(member)}, err
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "add-member", Tag: tag, Summary: "Give an account a role in a project", Status: http.StatusCreated,
		Faults: []string{fault.CodeNotFound, fault.CodeParameterInvalid}, Body: rest.JSONBody[newMembership](schemas),
	}, func(ctx context.Context, input *changeInput) (*output[Member], error) {
		return give(ctx, input.ID, input.Form)
	})
	type role struct {
		Role people.Role `json:"role" example:"editor"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: path + "/{user_id}", ID: "set-member", Tag: tag, Summary: "Set what an account may do in a project",
		Faults: []string{fault.CodeNotFound, fault.CodeParameterInvalid}, Body: rest.JSONBody[role](schemas),
	}, func(ctx context.Context, input *struct {
		MemberPath
		rest.FormInput
	},
	) (*output[Member], error) {
		input.Form.Values["user_id"] = input.UserID
		if _, err := h.userByID(ctx, input.UserID); err != nil {
			return nil, err
		}
		return give(ctx, input.ID, input.Form)
	})
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: path + "/{user_id}", ID: "remove-member", Tag: tag, Summary: "Take an account out of a project", Status: http.StatusNoContent, Faults: []string{fault.CodeNotFound},
	}, func(ctx context.Context, input *MemberPath) (*struct{}, error) {
		project, err := h.projectByID(ctx, input.ID)
		if err != nil {
			return nil, err
		}
		user, err := h.userByID(ctx, input.UserID)
		if err != nil {
			return nil, err
		}
		request.Made(ctx, user.ID.String(), user.Name)
		return nil, h.people.RemoveMember(ctx, project.ID, user.ID)
	})
}

// chosen is the project that a request is about; without accounts the first.
func chosen(ctx context.Context) uuid.UUID {
	if id := request.From(ctx).Project.ID; id != uuid.Nil {
		return id
	}
	return project.Default
}

func (h *handler) registerTokens(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/tokens"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path, ID: "list-tokens", Tag: tag, Summary: "List the tokens of a project, newest first",
		Description: "Those who manage the project see all, everybody else their own.",
	}, func(ctx context.Context, input *pageInput) (*list[Token], error) {
		found, total, err := h.people.Tokens(ctx, chosen(ctx), h.ownerShown(ctx), input.Window())
		tokens := make([]Token, len(found))
		for n, one := range found {
			tokens[n] = newToken(one)
		}
		return newList(tokens, input.Window(), total), err
	})
	type tokenBody struct {
		Name string      `json:"name" doc:"1–64 characters" example:"nightly pipeline"`
		Role people.Role `json:"role,omitempty" doc:"At most your own; viewer if absent" example:"editor"`
		Days int         `json:"expires_in_days,omitempty" doc:"0: never; 90 if absent" example:"90"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-token", Tag: tag, Summary: "Make a token for a project", Description: "Its value is told only now.",
		Status: http.StatusCreated, Faults: []string{fault.CodeParameterInvalid, fault.CodeQuotaExceeded}, Body: rest.JSONBody[tokenBody](schemas),
	}, func(ctx context.Context, input *bodyInput) (*output[NewToken], error) {
		token, value, faults, err := h.makeToken(ctx, chosen(ctx), input.Form, "expires_in_days")
		if err == nil && len(faults) > 0 {
			err = refused(faults)
		}
		return &output[NewToken]{NewToken{newToken(token), value}}, err
	})
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: path + "/{id}", ID: "revoke-token", Tag: tag, Summary: "Revoke a token, at once", Status: http.StatusNoContent, Faults: []string{fault.CodeNotFound},
	}, func(ctx context.Context, input *ObjectPath) (*struct{}, error) {
		id, err := request.ID(input.ID, people.KindToken)
		if err != nil {
			return nil, err
		}
		return nil, h.revoke(ctx, chosen(ctx), id)
	})
}

func (h *handler) registerShares(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/shares"
	type sharesInput struct {
		TaskID string `query:"task_id" doc:"Id of the task" required:"true" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{Method: http.MethodGet, Path: path, ID: "list-shares", Tag: tag, Summary: "List the links to a task's report, newest first", Faults: []string{fault.CodeTaskNotFound, fault.CodeParameterInvalid}},
		func(ctx context.Context, input *sharesInput) (*list[Share], error) {
			task, err := request.Task(ctx, h.Store, input.TaskID)
			if err != nil {
				return nil, err
			}
			found, err := h.people.Shares(ctx, task.ID)
			shares := make([]Share, len(found))
			for n, one := range found {
				shares[n] = newShare(one)
			}
			return newList(shares, db.Page{Number: 1, Size: max(1, len(shares))}, len(shares)), err
		})
	type shareBody struct {
		TaskID string `json:"task_id" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
		Days   int    `json:"expires_in_days,omitempty" doc:"1–3650; 7 if absent" example:"7"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-share", Tag: tag, Summary: "Make a read-only link to a task's report",
		Description: "Whoever has it sees the report and nothing else. Its address is told only now.", Status: http.StatusCreated,
		Faults: []string{fault.CodeTaskNotFound, fault.CodeTaskNotFinished, fault.CodeParameterInvalid, fault.CodeQuotaExceeded}, Body: rest.JSONBody[shareBody](schemas),
	}, func(ctx context.Context, input *sitedInput) (*output[NewShare], error) {
		task, err := request.Task(ctx, h.Store, input.Form.Value("task_id"))
		if err != nil {
			return nil, err
		}
		share, address, faults, err := h.makeShare(ctx, task, input.Form, "expires_in_days", h.site(input.request))
		if err == nil && len(faults) > 0 {
			err = refused(faults)
		}
		return &output[NewShare]{NewShare{newShare(share), address}}, err
	})
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: path + "/{id}", ID: "revoke-share", Tag: tag, Summary: "Revoke a link, at once", Status: http.StatusNoContent, Faults: []string{fault.CodeNotFound},
	}, func(ctx context.Context, input *ObjectPath) (*struct{}, error) {
		id, err := request.ID(input.ID, people.KindShare)
		if err != nil {
			return nil, err
		}
		share, err := h.people.Share(ctx, id)
		if err != nil {
			return nil, err
		}
		task, err := h.Store.Task(ctx, request.ScopeOf(ctx), share.TaskID)
		if err != nil { // of another project
			return nil, db.NotFound(people.KindShare, err)
		}
		request.Made(ctx, share.ID.String(), task.Name)
		return nil, h.people.RevokeShare(ctx, share.ID)
	})
}

// sitedInput is a body with the request, whose address links begin with.
type sitedInput struct {
	rest.FormInput
	request *http.Request
}

// Resolve implements huma.Resolver.
func (i *sitedInput) Resolve(ctx huma.Context) []error {
	i.request = humaecho.Unwrap(ctx).Request()
	return i.FormInput.Resolve(ctx)
}

func (h *handler) registerAudit(api huma.API) {
	type auditInput struct {
		rest.PageQuery
		Actor  string `query:"actor" doc:"Name of an account or token, or an address" example:"李雷"`
		Action string `query:"action" doc:"An action, or what it begins with before the point" example:"task"`
		Object string `query:"object" doc:"Id, kind, or part of the name" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
		From   string `query:"from" doc:"RFC 3339, or a day in Beijing" example:"2026-11-01"`
		To     string `query:"to" doc:"RFC 3339 (exclusive), or the last day" example:"2026-11-30"`
	}
	rest.Register(api, h.Failed, rest.Endpoint{Method: http.MethodGet, Path: paths.API + "/audit", ID: "list-audit", Tag: tag, Summary: "List who did what, newest first", Faults: []string{fault.CodeParameterInvalid}},
		func(ctx context.Context, input *auditInput) (*list[Record], error) {
			filter, err := auditFilter(input.Actor, input.Action, input.Object, input.From, input.To)
			if err != nil {
				return nil, err
			}
			entries, total, err := h.Audit.List(ctx, filter, input.Window())
			records := make([]Record, len(entries))
			for n, one := range entries {
				records[n] = newRecord(one)
			}
			return newList(records, input.Window(), total), err
		})
}
