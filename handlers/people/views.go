package people

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
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

// View holds the filters and the order of a page, saved under a name for the members of a project.
type View struct {
	ID        uuid.UUID       `json:"id"`
	Name      string          `json:"name" example:"法务：关键信息不同"`
	Kind      people.ViewKind `json:"kind" doc:"questions: a view of a task's results and its review; tasks: a view of the list of tasks" enum:"questions,tasks" example:"questions"`
	Query     string          `json:"query" doc:"Query string of the page's address" example:"column.category=%E5%90%88%E5%90%8C&filter=facts"`
	CreatedBy string          `json:"created_by" example:"李雷"`
	CreatedAt rest.Moment     `json:"created_at"`
	UpdatedAt rest.Moment     `json:"updated_at"`
}

func newView(v people.View) View {
	return View{v.ID, v.Name, v.Kind, v.Query, v.CreatedBy, rest.Moment(v.CreatedAt), rest.Moment(v.UpdatedAt)}
}

type (
	newViewBody struct {
		Name  string          `json:"name" doc:"1–64 characters" example:"法务：关键信息不同"`
		Kind  people.ViewKind `json:"kind" enum:"questions,tasks" example:"questions"`
		Query string          `json:"query" doc:"Query string of the page's address" example:"filter=facts"`
	}
	changedViewBody struct {
		Name  string `json:"name,omitempty" doc:"1–64 characters"`
		Query string `json:"query,omitempty" doc:"Query string of the page's address"`
	}
)

func (h endpoints) registerViews(api huma.API) {
	schemas, path := api.OpenAPI().Components.Schemas, paths.API+"/views"
	faults := []string{request.CodeNotFound, request.CodeParameterInvalid}
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path, ID: "list-views", Tag: tag, Summary: "List the saved views of a project, by name",
		Description: "A view holds the filters and the sort order of a page. `?saved=<id>` opens it on the page of a task's results, its review or the list of tasks.",
		Faults:      []string{request.CodeParameterInvalid},
	}, h.listViews)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path, ID: "create-view", Tag: tag, Summary: "Save a view for a project",
		Status: http.StatusCreated,
		Faults: []string{request.CodeParameterInvalid, request.CodeQuotaExceeded}, Body: rest.JSONBody[newViewBody](schemas),
	}, h.createView)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}", ID: "get-view", Tag: tag, Summary: "Get a saved view",
		Faults: faults[:1],
	}, h.getView)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPatch, Path: path + "/{id}", ID: "change-view", Tag: tag,
		Summary: "Rename a saved view, or replace its query",
		Faults:  faults, Body: rest.JSONBody[changedViewBody](schemas),
	}, h.patchView)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: path + "/{id}", ID: "remove-view", Tag: tag, Summary: "Remove a saved view",
		Status: http.StatusNoContent, Faults: faults[:1],
	}, h.deleteView)
}

type viewsInput struct {
	Kind people.ViewKind `query:"kind" doc:"Only views of this kind" enum:"questions,tasks"`
	rest.PageQuery
}

func (h endpoints) listViews(ctx context.Context, input *viewsInput) (*list[View], error) {
	var all []View
	for _, kind := range people.ViewKinds {
		if input.Kind != "" && input.Kind != kind {
			continue
		}
		found, err := h.people.Views(ctx, request.ScopeOf(ctx).Home(), kind)
		if err != nil {
			return nil, err
		}
		for _, one := range found {
			all = append(all, newView(one))
		}
	}
	return newList(db.OnPage(all, input.Window()), input.Window(), len(all)), nil
}

func (h endpoints) createView(ctx context.Context, input *bodyInput) (*output[View], error) {
	view, err := h.makeView(ctx, input.Form)
	return &output[View]{newView(view)}, err
}

func (h endpoints) getView(ctx context.Context, input *ObjectPath) (*output[View], error) {
	id, err := request.ID(input.ID, people.KindView)
	if err != nil {
		return nil, err
	}
	view, err := h.people.View(ctx, request.ScopeOf(ctx).Home(), id)
	return &output[View]{newView(view)}, err
}

func (h endpoints) patchView(ctx context.Context, input *changeInput) (*output[View], error) {
	view, err := h.reviseView(ctx, input.ID, input.Form)
	return &output[View]{newView(view)}, err
}

func (h endpoints) deleteView(ctx context.Context, input *ObjectPath) (*struct{}, error) {
	return nil, h.dropView(ctx, input.ID)
}

// makeView saves the view that a form describes.
func (h *handler) makeView(ctx context.Context, submitted *form.Upload) (people.View, error) {
	given := identity.View{Name: submitted.Value("name"), Query: submitted.Value("query")}
	view, err := h.identity.AddView(ctx, request.ScopeOf(ctx).Home(), people.ViewKind(submitted.Value("kind")), given,
		request.From(ctx).Actor.Who())
	if err != nil {
		return view, form.Refusal(form.PersonFaults(err, nil))
	}
	request.Made(ctx, view.ID.String(), view.Name)
	request.Changed(ctx, nil, request.AuditFields(&view))
	return view, nil
}

// reviseView changes those fields of a view that a form contains.
func (h *handler) reviseView(ctx context.Context, text string, submitted *form.Upload) (people.View, error) {
	id, err := request.ID(text, people.KindView)
	if err != nil {
		return people.View{}, err
	}
	before, after, err := h.identity.ChangeView(ctx, request.ScopeOf(ctx).Home(), id, func(view *identity.View) {
		if submitted.Has("name") {
			view.Name = submitted.Value("name")
		}
		if submitted.Has("query") {
			view.Query = submitted.Value("query")
		}
	})
	if err != nil {
		return after, form.Refusal(form.PersonFaults(err, nil))
	}
	request.Made(ctx, after.ID.String(), after.Name)
	request.Changed(ctx, request.AuditFields(&before), request.AuditFields(&after))
	return after, nil
}

func (h *handler) dropView(ctx context.Context, text string) error {
	id, err := request.ID(text, people.KindView)
	if err != nil {
		return err
	}
	view, err := h.identity.RemoveView(ctx, request.ScopeOf(ctx).Home(), id)
	if err != nil {
		return err
	}
	request.Made(ctx, view.ID.String(), view.Name)
	request.Changed(ctx, request.AuditFields(&view), nil)
	return nil
}

// back redirects to the page whose form was submitted, as its hidden field says.
func back(c echo.Context, submitted *form.Upload) error {
	return c.Redirect(http.StatusSeeOther, request.LocalPath(submitted.Values["back"], paths.Tasks))
}

func (h *handler) addView(c echo.Context) error {
	submitted, err := read(c)
	if err != nil {
		return err
	}
	if _, err := h.makeView(c.Request().Context(), submitted); err != nil {
		return err
	}
	return back(c, submitted)
}

func (h *handler) changeView(c echo.Context) error {
	submitted, err := read(c)
	if err != nil {
		return err
	}
	if _, err := h.reviseView(c.Request().Context(), c.Param("id"), submitted); err != nil {
		return err
	}
	return back(c, submitted)
}

func (h *handler) removeView(c echo.Context) error {
	submitted, err := read(c)
	if err != nil {
		return err
	}
	if err := h.dropView(c.Request().Context(), c.Param("id")); err != nil {
		return err
	}
	return back(c, submitted)
}
