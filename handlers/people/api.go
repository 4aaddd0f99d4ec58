package people

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/identity"
	"wending/views/paths"
)

// output is a response with a body.
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

// ObjectPath is the path parameter with an object's id.
type ObjectPath struct {
	ID string `path:"id" doc:"Id of the object" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

type bodyInput struct{ rest.FormInput }

type changeInput struct {
	ObjectPath
	rest.FormInput
}

// MemberPath holds the path parameters with the ids of a project and of an account in it.
type MemberPath struct {
	ObjectPath
	UserID string `path:"user_id" doc:"Id of the account" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

type pageInput struct {
	rest.PageQuery
}

// endpoints implements the API's operations. It is a type of its own because the pages' methods have the same names.
type endpoints struct{ *handler }

// Enums returns the enumerations whose values appear in these endpoints.
func Enums() []rest.Enum {
	return []rest.Enum{rest.EnumOf(people.Roles), rest.EnumNamed("audited via", people.AuditVias)}
}

// RegisterAPI adds the endpoints.
func RegisterAPI(api huma.API, config Config) {
	h := endpoints{newHandler(config)}
	h.registerUsers(api)
	h.registerProjects(api)
	h.registerMembers(api)
	h.registerTokens(api)
	h.registerShares(api)
	h.registerComments(api)
	h.registerViews(api)
	h.registerPairs(api)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.API + "/audit", ID: "list-audit", Tag: tag,
		Summary: "List the audit log, newest first",
		Faults:  []string{request.CodeParameterInvalid},
	}, h.listAudit)
}

const tag = "people"

func (h endpoints) registerUsers(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/users"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path, ID: "list-users", Tag: tag, Summary: "List the accounts, by name",
	}, h.listUsers)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-user", Tag: tag, Summary: "Create an account",
		Status: http.StatusCreated,
		Faults: []string{request.CodeParameterInvalid}, Body: rest.JSONBody[newUser](schemas),
	}, h.createUser)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}", ID: "get-user", Tag: tag, Summary: "Get an account",
		Faults: []string{request.CodeNotFound},
	}, h.getUser)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPatch, Path: path + "/{id}", ID: "change-user", Tag: tag, Summary: "Change an account",
		Description: "At least one account that may manage accounts must remain; otherwise 409 TASK_STATE_CONFLICT.",
		Faults:      []string{request.CodeNotFound, request.CodeParameterInvalid, request.CodeTaskStateConflict},
		Body:        rest.JSONBody[changedUser](schemas),
	}, h.patchUser)
}

func (h endpoints) registerProjects(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/projects"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path, ID: "list-projects", Tag: tag, Summary: "List the projects that you are in",
	}, h.listProjects)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-project", Tag: tag, Summary: "Create a project",
		Status: http.StatusCreated,
		Faults: []string{request.CodeParameterInvalid}, Body: rest.JSONBody[newProject](schemas),
	}, h.createProject)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}", ID: "get-project", Tag: tag,
		Summary: "Get a project with its quotas and their current usage",
		Faults:  []string{request.CodeNotFound},
	}, h.getProject)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPatch, Path: path + "/{id}", ID: "change-project", Tag: tag,
		Summary: "Change a project's name and quotas",
		Description: "Beyond a quota, new work is refused with QUOTA_EXCEEDED and lanes wait. Running work continues, " +
			"except that launches are stopped at the monthly cost ceiling.",
		Faults: []string{request.CodeNotFound, request.CodeParameterInvalid},
		Body:   rest.JSONBody[changedProject](schemas),
	}, h.patchProject)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}/settings", ID: "get-project-settings", Tag: tag,
		Summary: "Get a project's settings",
		Faults:  []string{request.CodeNotFound},
	}, h.getSettings)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: path + "/{id}/settings", ID: "put-project-settings", Tag: tag,
		Summary:     "Replace a project's settings",
		Description: "Project administrators may do this. Verdicts keep reasons that are no longer in the list.",
		Faults:      []string{request.CodeNotFound, request.CodeParameterInvalid},
	}, h.putSettings)
}

func (h endpoints) registerMembers(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/projects/{id}/members"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path, ID: "list-members", Tag: tag, Summary: "List the members of a project",
		Faults: []string{request.CodeNotFound},
	}, h.listMembers)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "add-member", Tag: tag, Summary: "Add an account to a project",
		Status: http.StatusCreated,
		Faults: []string{request.CodeNotFound, request.CodeParameterInvalid}, Body: rest.JSONBody[newMembership](schemas),
	}, h.addMember)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: path + "/{user_id}", ID: "set-member", Tag: tag,
		Summary: "Change the role of an account in a project",
		Faults:  []string{request.CodeNotFound, request.CodeParameterInvalid}, Body: rest.JSONBody[role](schemas),
	}, h.setMember)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: path + "/{user_id}", ID: "remove-member", Tag: tag,
		Summary: "Remove an account from a project", Status: http.StatusNoContent,
		Faults: []string{request.CodeNotFound},
	}, h.removeMember)
}

func (h endpoints) registerTokens(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/tokens"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path, ID: "list-tokens", Tag: tag,
		Summary:     "List the tokens of a project, newest first",
		Description: "Project administrators see all tokens, other members their own.",
	}, h.listTokens)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-token", Tag: tag, Summary: "Create a token for a project",
		Description: "Its value is returned only in this response.",
		Status:      http.StatusCreated, Faults: []string{request.CodeParameterInvalid, request.CodeQuotaExceeded},
		Body: rest.JSONBody[tokenBody](schemas),
	}, h.createToken)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: path + "/{id}", ID: "revoke-token", Tag: tag, Summary: "Revoke a token immediately",
		Status: http.StatusNoContent,
		Faults: []string{request.CodeNotFound},
	}, h.revokeToken)
}

func (h endpoints) registerShares(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/shares"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path, ID: "list-shares", Tag: tag,
		Summary: "List the links to a task, newest first",
		Faults:  []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.listShares)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-share", Tag: tag,
		Summary: "Create a read-only link to a task's report, answers or replay", Status: http.StatusCreated,
		Description: "Anyone with the link can see the content that was chosen, including its files, and nothing else. " +
			"Its address is returned only in this response.",
		Faults: []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid,
			request.CodeQuotaExceeded}, Body: rest.JSONBody[shareBody](schemas),
	}, h.createShare)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: path + "/{id}", ID: "revoke-share", Tag: tag, Summary: "Revoke a link immediately",
		Status: http.StatusNoContent,
		Faults: []string{request.CodeNotFound},
	}, h.revokeShare)
}

type usersInput struct {
	rest.PageQuery
	Query string `query:"query" doc:"Only accounts whose name contains this text" example:"李"`
}

func (h endpoints) listUsers(ctx context.Context, input *usersInput) (*list[Account], error) {
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
}

func (h endpoints) createUser(ctx context.Context, input *bodyInput) (*output[Account], error) {
	user, faults, err := h.makeUser(ctx, input.Form)
	if err := form.Refusal(faults, err); err != nil {
		return nil, err
	}
	account, err := h.account(ctx, user)
	return &output[Account]{account}, err
}

func (h endpoints) getUser(ctx context.Context, input *ObjectPath) (*output[Account], error) {
	user, err := h.userByID(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	account, err := h.account(ctx, user)
	return &output[Account]{account}, err
}

func (h endpoints) patchUser(ctx context.Context, input *changeInput) (*output[Account], error) {
	user, err := h.userByID(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	if err := form.Refusal(h.changeUser(ctx, user, input.Form)); err != nil {
		return nil, err
	}
	return h.getUser(ctx, &input.ObjectPath)
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

func (h endpoints) listProjects(ctx context.Context, input *pageInput) (*list[Workspace], error) {
	visible, err := h.visible(ctx)
	if err != nil {
		return nil, err
	}
	var workspaces []Workspace
	for _, one := range db.OnPage(visible, input.Window()) {
		project, err := h.people.Project(ctx, one.ProjectID)
		if err != nil {
			return nil, err
		}
		workspaces = append(workspaces, newWorkspace(project, nil))
	}
	return newList(workspaces, input.Window(), len(visible)), nil
}

func (h endpoints) createProject(ctx context.Context, input *bodyInput) (*output[Workspace], error) {
	project, faults, err := h.makeProject(ctx, input.Form)
	return &output[Workspace]{newWorkspace(project, nil)}, form.Refusal(faults, err)
}

func (h endpoints) getProject(ctx context.Context, input *ObjectPath) (*output[Workspace], error) {
	project, err := h.projectByID(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	used, err := h.quotas.Used(ctx, project.ID)
	return &output[Workspace]{newWorkspace(project, &used)}, err
}

func (h endpoints) patchProject(ctx context.Context, input *changeInput) (*output[Workspace], error) {
	project, err := h.projectByID(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	project, faults, err := h.applyProject(ctx, project, input.Form)
	return &output[Workspace]{newWorkspace(project, nil)}, form.Refusal(faults, err)
}

func (h endpoints) getSettings(ctx context.Context, input *ObjectPath) (*output[Settings], error) {
	project, err := h.projectByID(ctx, input.ID)
	return &output[Settings]{h.settingsOf(project)}, err
}

type settingsInput struct {
	ObjectPath
	Body Settings
}

func (h endpoints) putSettings(ctx context.Context, input *settingsInput) (*output[Settings], error) {
	project, err := h.projectByID(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	project, faults, err := h.applySettings(ctx, project, input.Body)
	return &output[Settings]{h.settingsOf(project)}, form.Refusal(faults, err)
}

type membersInput struct {
	ObjectPath
	rest.PageQuery
}

func (h endpoints) listMembers(ctx context.Context, input *membersInput) (*list[Member], error) {
	project, err := h.projectByID(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	all, err := h.people.Members(ctx, project.ID)
	if err != nil {
		return nil, err
	}
	var members []Member
	for _, one := range db.OnPage(all, input.Window()) {
		members = append(members, newMember(one))
	}
	return newList(members, input.Window(), len(all)), nil
}

func (h endpoints) addMember(ctx context.Context, input *changeInput) (*output[Member], error) {
	project, err := h.projectByID(ctx, input.ID)
	if err != nil {
		return nil, err
	}
	member, faults, err := h.giveRole(ctx, project, input.Form)
	return &output[Member]{newMember(member)}, form.Refusal(faults, err)
}

type membershipInput struct {
	MemberPath
	rest.FormInput
}

func (h endpoints) setMember(ctx context.Context, input *membershipInput) (*output[Member], error) {
	if _, err := h.userByID(ctx, input.UserID); err != nil {
		return nil, err
	}
	return h.addMember(ctx, &changeInput{input.ObjectPath, rest.FormInput{Form: input.Form.With("user_id", input.UserID)}})
}

func (h endpoints) removeMember(ctx context.Context, input *MemberPath) (*struct{}, error) {
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
}

// chosen returns the id of the project that a request is about; without accounts, by default, the first one.
func chosen(ctx context.Context) uuid.UUID {
	if id := request.From(ctx).Project.ID; id != uuid.Nil {
		return id
	}
	return db.DefaultProject
}

func (h endpoints) listTokens(ctx context.Context, input *pageInput) (*list[Token], error) {
	found, total, err := h.people.Tokens(ctx, chosen(ctx), h.ownerShown(ctx), input.Window())
	tokens := make([]Token, len(found))
	for n, one := range found {
		tokens[n] = newToken(one)
	}
	return newList(tokens, input.Window(), total), err
}

func (h endpoints) createToken(ctx context.Context, input *bodyInput) (*output[NewToken], error) {
	token, value, faults, err := h.makeToken(ctx, chosen(ctx), input.Form, "expires_in_days")
	return &output[NewToken]{NewToken{newToken(token), value}}, form.Refusal(faults, err)
}

func (h endpoints) revokeToken(ctx context.Context, input *ObjectPath) (*struct{}, error) {
	id, err := request.ID(input.ID, people.KindToken)
	if err != nil {
		return nil, err
	}
	return nil, h.revoke(ctx, chosen(ctx), id)
}

type sharesInput struct {
	TaskID string `query:"task_id" doc:"Id of the task" required:"true" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

func (h endpoints) listShares(ctx context.Context, input *sharesInput) (*list[Share], error) {
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
}

// sitedInput is a body together with its request, from which the base address of links is taken.
type sitedInput struct {
	rest.FormInput
	request echo.Context
}

// Resolve implements huma.Resolver.
func (i *sitedInput) Resolve(ctx huma.Context) []error {
	i.request = humaecho.Unwrap(ctx)
	return i.FormInput.Resolve(ctx)
}

func (h endpoints) createShare(ctx context.Context, input *sitedInput) (*output[NewShare], error) {
	task, err := request.Task(ctx, h.Store, input.Form.Value("task_id"))
	if err != nil {
		return nil, err
	}
	var only []int64
	filters := url.Values{}
	if input.Form.Has("filters") {
		if filters, err = identity.ShareFilters(input.Form.Value("filters")); err == nil {
			only, filters, err = h.filtered(input.request, task, filters)
		}
		if err != nil {
			return nil, form.Refusal(form.PersonFaults(err, nil))
		}
	}
	share, address, faults, err := h.makeShare(ctx, task, input.Form, only, filters, "expires_in_days",
		h.site(input.request.Request()))
	return &output[NewShare]{NewShare{newShare(share), address}}, form.Refusal(faults, err)
}

func (h endpoints) revokeShare(ctx context.Context, input *ObjectPath) (*struct{}, error) {
	id, err := request.ID(input.ID, people.KindShare)
	if err != nil {
		return nil, err
	}
	share, err := h.people.Share(ctx, id)
	if err != nil {
		return nil, err
	}
	task, err := h.Store.Task(ctx, request.ScopeOf(ctx), share.TaskID)
	if err != nil { // it belongs to another project
		return nil, db.NotFound(people.KindShare, err)
	}
	request.Made(ctx, share.ID.String(), task.Name)
	return nil, h.people.RevokeShare(ctx, share.ID)
}

type auditInput struct {
	rest.PageQuery
	Actor  string `query:"actor" doc:"Only entries of this actor: the name of an account or token, or an address" example:"李雷"`
	Action string `query:"action" doc:"Only this action, such as task.delete, or all actions with this prefix, such as task" example:"task"`
	Object string `query:"object" doc:"Only entries about this object: its id, its kind, or part of its name" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	From   string `query:"from" doc:"Start of the period, inclusive: RFC 3339, or a day in Beijing time" example:"2026-11-01"`
	To     string `query:"to" doc:"End of the period: RFC 3339, exclusive, or the last day in Beijing time" example:"2026-11-30"`
}

func (h endpoints) listAudit(ctx context.Context, input *auditInput) (*list[Record], error) {
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
}
