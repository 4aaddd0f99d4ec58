package people

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"wending/db/review"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/identity"
	"wending/views/paths"
	"wending/views/system"
	"wending/views/ui"
)

func (h *handler) listProjects(c echo.Context) error {
	return h.renderProjects(c, http.StatusOK, nil, nil)
}

// visible returns the projects that the request's account may choose from; without accounts, all projects.
func (h *handler) visible(ctx context.Context) ([]people.Membership, error) {
	info := request.From(ctx)
	if info.HasAccounts {
		return info.Who.Projects, nil
	}
	all, err := h.people.Projects(ctx)
	memberships := make([]people.Membership, len(all))
	for n, one := range all {
		memberships[n] = people.Membership{ProjectID: one.ID, ProjectName: one.Name, Role: people.Admin}
	}
	return memberships, err
}

func (h *handler) renderProjects(c echo.Context, status int, values, problems map[string]string) error {
	ctx := c.Request().Context()
	view := system.Projects{MayAdd: request.From(ctx).Who.IsAdmin, Values: values, Errors: problems}
	var err error
	if view.List, err = h.visible(ctx); err != nil {
		return err
	}
	return pages.Render(c, status, system.ProjectsPage(h.frame(c, pages.Locale(c).Text("projects.title")), view))
}

func (h *handler) addProject(c echo.Context) error {
	submitted, err := read(c)
	if err != nil {
		return err
	}
	project, faults, err := h.makeProject(c.Request().Context(), submitted)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return h.renderProjects(c, http.StatusUnprocessableEntity, map[string]string{"name": submitted.Values["name"]},
			form.Messages(pages.Locale(c), faults))
	}
	return pages.Done(c, paths.Project(project.ID), "created")
}

// makeProject creates the project that a form or an endpoint's body describes, with its creator as administrator.
func (h *handler) makeProject(ctx context.Context,
	submitted *form.Upload) (project people.Project, faults []form.FieldFault, err error) {
	if faults = form.OnlyTexts(submitted, "name"); len(faults) > 0 {
		return project, faults, nil
	}
	project, err = h.identity.AddProject(ctx, submitted.Values["name"], request.From(ctx).Who.UserID)
	if err != nil {
		faults, err = form.PersonFaults(err, nil)
		return project, faults, err
	}
	request.Made(ctx, project.ID.String(), project.Name)
	return project, nil, nil
}

// project returns the project whose id is in the path.
func (h *handler) project(c echo.Context) (people.Project, error) {
	id, err := pathID(c, "id", people.KindProject)
	if err != nil {
		return people.Project{}, err
	}
	return h.people.Project(c.Request().Context(), id)
}

func (h *handler) showProject(c echo.Context) error {
	project, err := h.project(c)
	if err != nil {
		return err
	}
	typed := map[string]string{} // restored in the form after signing in again
	for _, name := range []string{"token", "token_role", "token_days"} {
		typed[name] = c.QueryParam(name)
	}
	return h.renderProject(c, http.StatusOK, project, system.Project{Values: typed})
}

// tokensShown is the maximum number of tokens that a project's page lists.
const tokensShown = 100

// renderProject shows a project; view holds what was typed, the errors in it, and the result of the last action.
func (h *handler) renderProject(c echo.Context, status int, project people.Project, view system.Project) error {
	ctx := c.Request().Context()
	info := request.From(ctx)
	view.Project, view.Role = project, info.Role
	view.SensitivePatterns = *h.settingsOf(project).SensitivePatterns
	view.MayManage, view.MaySet = info.Role.Allows(people.Admin), info.Who.IsAdmin
	var err error
	if view.Members, err = h.people.Members(ctx, project.ID); err != nil {
		return err
	}
	if view.Tokens, _, err = h.people.Tokens(ctx, project.ID, h.ownerShown(ctx),
		db.Page{Number: 1, Size: tokensShown}); err != nil {
		return err
	}
	if view.Used, err = h.quotas.Used(ctx, project.ID); err != nil {
		return err
	}
	frame := h.frame(c, project.Name, ui.Crumb{Text: pages.Locale(c).Text("projects.title"), Href: paths.Projects},
		ui.Crumb{Text: project.Name})
	frame.Here = paths.Project(project.ID)
	return pages.Render(c, status, system.ProjectPage(frame, view))
}

// ownerShown returns the account whose tokens a user may see: the user's own or, for administrators of the project,
// nil, which means all accounts.
func (h *handler) ownerShown(ctx context.Context) *uuid.UUID {
	info := request.From(ctx)
	if info.Role.Allows(people.Admin) {
		return nil
	}
	return &info.Who.UserID
}

// quotaView returns a project's name and quotas in the form used by the audit and the API.
func quotaView(p people.Project) map[string]any {
	return map[string]any{
		"name": p.Name, "calls_per_day": p.CallsPerDay, "uploads_per_day": p.UploadsPerDay, "disk_bytes": p.DiskBytes,
		"lanes": p.Lanes, "cost_per_month": p.CostPerMonth,
	}
}

// changed returns the project with the changes that a form or a body describes. It rejects text that is not a number;
// numbers out of range are rejected when they are stored.
func changed(project people.Project, submitted *form.Upload) (people.Project, []form.FieldFault) {
	faults := form.OnlyTexts(submitted, "name")
	if submitted.Has("name") {
		project.Name = submitted.Values["name"]
	}
	number := func(field string, most int, set func(*int64)) {
		if !submitted.Has(field) {
			return
		}
		text := submitted.Value(field)
		if text == "" {
			set(nil)
			return
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			faults = append(faults, form.FieldFault{Field: field, Fault: request.FieldFault(field, request.Between(1, most))})
			return
		}
		set(&n)
	}
	small := func(to **int) func(*int64) {
		return func(n *int64) {
			if *to = nil; n != nil {
				one := int(*n)
				*to = &one
			}
		}
	}
	number("calls_per_day", identity.MaxCallsPerDay, func(n *int64) { project.CallsPerDay = n })
	number("uploads_per_day", identity.MaxUploadsPerDay, small(&project.UploadsPerDay))
	number("lanes", identity.MaxLanes, small(&project.Lanes))
	number("disk_bytes", identity.MaxDiskBytes, func(n *int64) { project.DiskBytes = n })
	number("disk_mb", identity.MaxDiskBytes>>20, func(n *int64) {
		if project.DiskBytes = nil; n != nil {
			bytes := min(*n, identity.MaxDiskBytes) << 20 // no overflow: a number above the limit is refused when it is stored
			project.DiskBytes = &bytes
		}
	})
	if submitted.Has("cost_per_month") {
		project.CostPerMonth = nil
		if text := submitted.Value("cost_per_month"); text != "" {
			project.CostPerMonth = &text
		}
	}
	return project, faults
}

// applyProject stores the changes to a project that a form or a body describes.
func (h *handler) applyProject(ctx context.Context, before people.Project,
	submitted *form.Upload) (people.Project, []form.FieldFault, error) {
	project, faults := changed(before, submitted)
	if len(faults) > 0 {
		return project, faults, nil
	}
	project, err := h.identity.ChangeProject(ctx, project)
	if err != nil {
		renamed := map[string]string{}
		if submitted.Has("disk_mb") {
			renamed["disk_bytes"] = "disk_mb"
		}
		faults, err = form.PersonFaults(err, renamed)
		return project, faults, err
	}
	request.Changed(ctx, quotaView(before), quotaView(project))
	return project, nil, nil
}

func (h *handler) changeProject(c echo.Context) error {
	project, err := h.project(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	_, faults, err := h.applyProject(c.Request().Context(), project, submitted)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return h.renderProject(c, http.StatusUnprocessableEntity, project,
			system.Project{Values: submitted.Values, Errors: form.Messages(pages.Locale(c), faults)})
	}
	return pages.Done(c, paths.Project(project.ID), "saved")
}

// settingsOf returns a project's settings. Without a list of its own, a project has the installation's sensitive
// patterns.
func (h *handler) settingsOf(p people.Project) Settings {
	patterns := append([]string{}, p.SensitivePatterns...)
	if p.SensitivePatterns == nil {
		patterns = append(patterns, h.SensitivePatterns...)
	}
	traceURL := string(p.TraceURL)
	return Settings{append([]string{}, p.ReviewReasons...), &p.Instructions, &p.Dimensions, &p.SmallestPoints,
		&p.SmallestPercent, &traceURL, &patterns, &p.SensitiveAction}
}

// applySettings stores those settings of a project that its own administrators may change.
func (h *handler) applySettings(ctx context.Context, before people.Project,
	settings Settings) (people.Project, []form.FieldFault, error) {
	own := make([]string, len(settings.ReviewReasons))
	for n, one := range settings.ReviewReasons {
		own[n] = request.StorableText(one)
	}
	set := people.ProjectSettings{ReviewReasons: own, SmallestPoints: settings.SmallestPoints,
		SmallestPercent: settings.SmallestPercent, SensitiveAction: settings.SensitiveAction}
	if settings.TraceURL != nil {
		template := people.TraceTemplate(strings.TrimSpace(request.StorableText(*settings.TraceURL)))
		set.TraceURL = &template
	}
	if settings.ReviewInstructions != nil {
		instructions := strings.TrimSpace(request.StorableText(*settings.ReviewInstructions))
		set.ReviewInstructions = &instructions
	}
	if settings.ReviewDimensions != nil {
		set.ReviewDimensions = append(review.Dimensions{}, *settings.ReviewDimensions...)
	}
	if settings.SensitivePatterns != nil {
		set.SensitivePatterns = []string{}
		for _, one := range *settings.SensitivePatterns {
			set.SensitivePatterns = append(set.SensitivePatterns, strings.TrimSpace(request.StorableText(one)))
		}
		set.UsualPatterns = slices.Equal(set.SensitivePatterns, h.SensitivePatterns)
	}
	project, err := h.identity.SetProjectSettings(ctx, before.ID, set)
	if err != nil {
		faults, err := form.PersonFaults(err, nil)
		return before, faults, err
	}
	request.Changed(ctx, h.settingsOf(before).view(), h.settingsOf(project).view())
	return project, nil, nil
}

// view returns the settings in the form that the audit log shows.
func (s Settings) view() map[string]any {
	return map[string]any{"review_reasons": s.ReviewReasons, "review_instructions": *s.ReviewInstructions,
		"review_dimensions": dimensionLines(*s.ReviewDimensions), "smallest_points": *s.SmallestPoints,
		"smallest_percent": *s.SmallestPercent, "trace_url": *s.TraceURL,
		"sensitive_patterns": *s.SensitivePatterns, "sensitive_action": *s.SensitiveAction}
}

// dimensionLines returns dimensions as people write them.
func dimensionLines(dimensions review.Dimensions) []string {
	lines := make([]string, len(dimensions))
	for n, one := range dimensions {
		lines[n] = one.String()
	}
	return lines
}

// typedLines returns the lines of a text, trimmed, without empty ones.
func typedLines(text string) []string {
	lines := []string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// typedDimensions returns the dimensions in a text, one per line. A line that cannot be parsed becomes a dimension that
// is not valid.
func typedDimensions(text string) review.Dimensions {
	dimensions := review.Dimensions{}
	for _, line := range typedLines(text) {
		one, err := review.ParseDimension(line)
		if err != nil {
			one = review.Dimension{}
		}
		dimensions = append(dimensions, one)
	}
	return dimensions
}

// typedSettings returns the settings in a form; what the form does not have stays nil.
func typedSettings(values map[string]string) Settings {
	settings := Settings{ReviewReasons: typedLines(values["review_reasons"]),
		SmallestPoints: typedNumber(values, "smallest_points"), SmallestPercent: typedNumber(values, "smallest_percent")}
	if typed, isTyped := values["review_instructions"]; isTyped {
		settings.ReviewInstructions = &typed
	}
	if typed, isTyped := values["review_dimensions"]; isTyped {
		dimensions := typedDimensions(typed)
		settings.ReviewDimensions = &dimensions
	}
	if typed, isTyped := values["sensitive_patterns"]; isTyped {
		patterns := typedLines(typed)
		settings.SensitivePatterns = &patterns
	}
	if typed, isTyped := values["sensitive_action"]; isTyped {
		settings.SensitiveAction = (*people.SensitiveAction)(&typed)
	}
	if typed, isTyped := values["trace_url"]; isTyped {
		settings.TraceURL = &typed
	}
	return settings
}

// changeSettings stores the form with the settings that a project's own administrators may change: its reasons for
// verdicts, its dimensions and its sensitive patterns, one per line, its instructions for reviewers, the smallest
// differences that matter, and the template of links to its traces.
func (h *handler) changeSettings(c echo.Context) error {
	project, err := h.project(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	_, faults, err := h.applySettings(c.Request().Context(), project, typedSettings(submitted.Values))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return h.renderProject(c, http.StatusUnprocessableEntity, project,
			system.Project{Values: submitted.Values, Errors: form.Messages(pages.Locale(c), faults)})
	}
	return pages.Done(c, paths.Project(project.ID), "saved")
}

func (h *handler) setMember(c echo.Context) error {
	ctx := c.Request().Context()
	project, err := h.project(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	_, faults, err := h.giveRole(ctx, project, submitted)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		view := system.Project{Values: map[string]string{"member": submitted.Values["name"]},
			Errors: map[string]string{"member": faults[0].Message(pages.Locale(c))}}
		return h.renderProject(c, http.StatusUnprocessableEntity, project, view)
	}
	return pages.Done(c, paths.Project(project.ID), "saved")
}

// giveRole gives an account, identified by user_id or name, a role in a project.
func (h *handler) giveRole(ctx context.Context, project people.Project,
	submitted *form.Upload) (member people.Member, faults []form.FieldFault, err error) {
	var user people.User
	field := "name"
	if text := submitted.Value("user_id"); text != "" {
		field = "user_id"
		id, malformed := uuid.Parse(text)
		if malformed != nil {
			id = uuid.Nil
		}
		user, err = h.people.User(ctx, id)
	} else {
		user, err = h.people.UserNamed(ctx, request.StorableText(submitted.Value("name")))
	}
	if errors.Is(err, db.ErrNotFound) {
		return member, []form.FieldFault{{Field: field, Fault: request.FieldFault(field, request.ValidAccount())}}, nil
	}
	if err != nil {
		return member, nil, err
	}
	role := people.Role(submitted.Value("role"))
	before, err := h.identity.SetMember(ctx, project.ID, user.ID, role)
	if err != nil {
		faults, err = form.PersonFaults(err, nil)
		return member, faults, err
	}
	request.Made(ctx, user.ID.String(), user.Name)
	request.Changed(ctx, map[string]any{"role": before}, map[string]any{"role": role})
	members, err := h.people.Members(ctx, project.ID)
	if at := slices.IndexFunc(members, func(m people.Member) bool { return m.UserID == user.ID }); err == nil && at >= 0 {
		member = members[at]
	}
	return member, nil, err
}

func (h *handler) removeMember(c echo.Context) error {
	project, err := h.project(c)
	if err != nil {
		return err
	}
	user, err := h.user(c)
	if err != nil {
		return err
	}
	request.Made(c.Request().Context(), user.ID.String(), user.Name)
	if err := h.people.RemoveMember(c.Request().Context(), project.ID, user.ID); err != nil {
		return err
	}
	return pages.Done(c, paths.Project(project.ID), "removed")
}

// days returns the number of days in a field, or usual if it is empty; for text that is not a number it returns -1,
// which is out of range.
func days(submitted *form.Upload, field string, usual int) int {
	text := submitted.Value(field)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

// usualTokenDays is the default lifetime of a token in days.
const usualTokenDays = 90

// makeToken creates the token that a form or a body describes. The token may not have more rights than its creator.
func (h *handler) makeToken(ctx context.Context, projectID uuid.UUID, submitted *form.Upload,
	field string) (token people.Token, value string, faults []form.FieldFault, err error) {
	info := request.From(ctx)
	// Somebody who finds the browser open must not create a token, because it outlives the session.
	if err := request.RequireFresh(ctx); err != nil {
		return token, "", nil, err
	}
	if faults = form.OnlyTexts(submitted, "name"); len(faults) > 0 {
		return token, "", faults, nil
	}
	lasts := days(submitted, field, usualTokenDays)
	draft, err := h.identity.DraftToken(identity.Maker{UserID: info.Who.UserID, TokenID: info.Who.TokenID,
		Role: info.Role}, identity.NewToken{
		Name: submitted.Values["name"], ProjectID: projectID,
		Role: people.Role(cmp.Or(submitted.Value("role"), string(people.Viewer))), Days: lasts,
	})
	if err != nil {
		faults, err = form.PersonFaults(err, map[string]string{"days": field})
		return token, "", faults, err
	}
	if token, value, err = h.identity.AddToken(ctx, draft); err != nil {
		return token, "", nil, err
	}
	request.Made(ctx, token.ID.String(), token.Name)
	request.Changed(ctx, nil, map[string]any{"role": token.Role, "project_id": projectID, "days": lasts})
	return token, value, nil, nil
}

func (h *handler) addToken(c echo.Context) error {
	project, err := h.project(c)
	if err != nil {
		return err
	}
	submitted, err := read(c)
	if err != nil {
		return err
	}
	typed := map[string]string{"token": submitted.Values["name"], "token_role": submitted.Value("role"),
		"token_days": submitted.Value("days")}
	_, value, faults, err := h.makeToken(c.Request().Context(), project.ID, submitted, "days")
	if errors.Is(err, request.ErrStale) {
		back := url.Values{}
		for name, text := range typed {
			back.Set(name, text)
		}
		view := system.Project{Values: typed,
			SignInAgain: paths.LoginAgain(paths.WithQuery(paths.Project(project.ID), back))}
		return h.renderProject(c, http.StatusForbidden, project, view)
	}
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		view := system.Project{Values: typed, Errors: map[string]string{"token": faults[0].Message(pages.Locale(c))}}
		return h.renderProject(c, http.StatusUnprocessableEntity, project, view)
	}
	return h.renderProject(c, http.StatusCreated, project, system.Project{NewToken: value})
}

// revoke revokes a token of a project: one of the user's own or, if the user administers the project, any.
func (h *handler) revoke(ctx context.Context, projectID, id uuid.UUID) error {
	token, err := h.identity.RevokeToken(ctx, projectID, h.ownerShown(ctx), id)
	if err == nil {
		request.Made(ctx, token.ID.String(), token.Name)
	}
	return err
}

func (h *handler) revokeToken(c echo.Context) error {
	project, err := h.project(c)
	if err != nil {
		return err
	}
	id, err := pathID(c, "token", people.KindToken)
	if err != nil {
		return err
	}
	if err := h.revoke(c.Request().Context(), project.ID, id); err != nil {
		return err
	}
	return pages.Done(c, paths.Project(project.ID), "revoked")
}

// typedNumber returns the number in a field; nil if the form has no such field. For text that is not a number it
// returns NaN, which no setting accepts.
func typedNumber(values map[string]string, field string) *float64 {
	typed, isTyped := values[field]
	if !isTyped {
		return nil
	}
	number, err := strconv.ParseFloat(strings.TrimSpace(typed), 64)
	if err != nil {
		number = math.NaN()
	}
	return &number
}
