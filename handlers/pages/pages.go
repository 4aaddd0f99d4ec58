// Package pages provides what every page needs: its frame, the paging of lists, previews of files of questions, and the
// browser's id and cookies.
package pages

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/people"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/jobs/agent/protocol"
	"wending/views/help"
	"wending/views/paths"
	"wending/views/text"
	"wending/views/ui"
)

// Locale returns a request's locale.
func Locale(c echo.Context) text.Locale { return request.From(c.Request().Context()).Locale }

// Gates returns the gates that limit concurrent work.
func Gates(c echo.Context) *request.Gates { return request.From(c.Request().Context()).Gates }

// Actor returns the actor of a request.
func Actor(c echo.Context) db.Actor { return request.From(c.Request().Context()).Actor }

// toasts are the valid values of the parameter "done".
var toasts = []string{
	"created", "saved", "run", "stop", "retry", "resume", "extend", "append", "evaluate", "deleted", "signed", "assigned",
	"reviewed", "regrouped", "withdrawn", "carried",
	"stored", "version", "removed", "archived", "restored", "tested", "untested", "again", "imported", "ended", "revoked",
	"unshared",
}

// Done redirects to a page that shows a message about what was done; what is one of toasts.
func Done(c echo.Context, path, what string) error {
	return c.Redirect(http.StatusSeeOther, path+"?done="+what)
}

const (
	// leftOut is the query parameter with the name of a parameter that was left out in a redirect to this page; it may be
	// repeated.
	leftOut = "left_out"
	// leftOutMost is the maximum number of these names that a page shows, and leftOutText is the maximum number of
	// characters of each.
	leftOutMost, leftOutText = 10, 100
)

// Nearest handles a fault of a query parameter whose value does not exist, for example in an old link. It redirects to
// the same page without the parameter, with a notice; from a download, it redirects to the page that offers the file.
// isAny is false, and nothing is done, if the query does not have the parameter.
func Nearest(c echo.Context, f *request.Fault) (isAny bool, err error) {
	name := f.Parameter()
	query := c.QueryParams()
	if r := c.Request(); r.Method != http.MethodGet || request.IsFragment(r) || !query.Has(name) {
		return false, nil
	}
	kept := maps.Clone(query)
	delete(kept, name)
	path := c.Request().URL.EscapedPath()
	for _, file := range []string{"/export", "/print"} {
		if of, isFile := strings.CutSuffix(path, file); isFile {
			path = of
			delete(kept, "format")
			delete(kept, "only")
		}
	}
	return true, c.Redirect(http.StatusSeeOther, noticing(paths.WithQuery(path, kept), name, query.Get(name)))
}

// noticing adds to an address the notice that a parameter was left out. The notice includes the parameter's value,
// unless that is empty.
func noticing(address, name, value string) string {
	if value != "" && name != paths.SavedParameter {
		name += "=" + value
	}
	separator := "?"
	if strings.Contains(address, "?") {
		separator = "&"
	}
	return address + separator + url.Values{leftOut: {name}}.Encode()
}

// KeepNotice adds the notices of the current page about parameters that were left out to the address of a redirect.
func KeepNotice(c echo.Context, address string) string {
	for _, name := range c.QueryParams()[leftOut] {
		address = noticing(address, name, "")
	}
	return address
}

// noticed returns the names of the parameters that were left out in redirects to the current page.
func noticed(c echo.Context) (names []string) {
	for _, name := range c.QueryParams()[leftOut] {
		if name = text.Cut(request.StorableText(name), leftOutText); name != "" && !slices.Contains(names, name) &&
			len(names) < leftOutMost {
			names = append(names, name)
		}
	}
	return names
}

// OpenView redirects from a page with a saved view in its query to the same page with the view's filters and order.
// isAsked reports whether the query has a view; if the view does not exist, err is a fault of the parameter.
func OpenView(c echo.Context, views people.People, kind people.ViewKind) (isAsked bool, err error) {
	query := c.QueryParams()
	if !query.Has(paths.SavedParameter) {
		return false, nil
	}
	ctx := c.Request().Context()
	id, err := request.ID(query.Get(paths.SavedParameter), people.KindView)
	var view people.View
	if err == nil {
		view, err = views.View(ctx, request.ScopeOf(ctx).Home(), id)
	}
	if errors.Is(err, db.ErrNotFound) || err == nil && view.Kind != kind {
		return true, request.ParameterFault(paths.SavedParameter, request.Existing())
	}
	if err != nil {
		return true, err
	}
	saved, err := url.ParseQuery(view.Query)
	if err != nil {
		return true, request.ParameterFault(paths.SavedParameter, request.Existing())
	}
	kept := maps.Clone(query)
	delete(kept, paths.SavedParameter)
	maps.Copy(kept, saved)
	return true, c.Redirect(http.StatusSeeOther, paths.WithQuery(c.Request().URL.EscapedPath(), kept))
}

// Views returns the saved views of a kind in the request's project. path and query identify the page on which they are
// shown.
func Views(c echo.Context, views people.People, kind people.ViewKind, path string, query url.Values) (ui.Views, error) {
	ctx := c.Request().Context()
	list, err := views.Views(ctx, request.ScopeOf(ctx).Home(), kind)
	return ui.Views{Kind: kind, List: list, Path: path, Query: query}, err
}

// SwitchLanguage sets the language of this page, and of later pages in this browser.
func SwitchLanguage(c echo.Context, lang string) error {
	if !slices.Contains(text.Languages, lang) {
		return request.ParameterFault("lang", request.OneOf(text.Languages...))
	}
	SetCookie(c, request.LanguageCookie, lang, Year)
	info := request.From(c.Request().Context())
	info.Locale = info.Locale.In(lang)
	c.SetRequest(c.Request().WithContext(request.With(c.Request().Context(), info)))
	return nil
}

// SendFile sends an uploaded file as a download, so that scripts in it cannot run.
func SendFile(c echo.Context, file io.ReadSeeker, name, extension string) {
	header := c.Response().Header()
	header.Set("Content-Disposition", request.Attachment(name))
	header.Set("Content-Security-Policy", "sandbox")
	http.ServeContent(c.Response(), c.Request(), "dataset."+extension, time.Time{}, file)
}

// Disclosure returns the sensitive content that must be confirmed before the request to path with query is repeated;
// nil if err is not about such content.
func Disclosure(c echo.Context, err error, path string, query url.Values) *ui.Disclosure {
	content := request.UnconfirmedContent(c.Request().Context(), err)
	if content == nil {
		return nil
	}
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	query.Set(request.ConfirmParameter, content.Confirmation)
	shown := &ui.Disclosure{Total: content.Total, Action: paths.WithQuery(path, query)}
	for _, one := range content.Places {
		shown.Places = append(shown.Places, ui.DisclosedPlace(one))
	}
	return shown
}

// Probe returns the outcome of a test call as pages show it.
func Probe(answer protocol.Answer) ui.Probe {
	probe := ui.Probe{
		Status: string(answer.Status), Latency: answer.Latency, HTTPStatus: answer.HTTPStatus,
		ContentType: answer.ContentType,
		Text:        answer.Text, Reasoning: answer.Reasoning, Raw: answer.Raw,
	}
	if answer.ErrorCode != "" {
		probe.Failure = &ui.Failure{Code: answer.ErrorCode, Message: answer.ErrorMessage}
	}
	return probe
}

// Frame returns the frame of a page: its title, navigation, breadcrumbs and link to the guide.
func Frame(c echo.Context, version, title string, section ui.Section, crumbs ...ui.Crumb) ui.Frame {
	here := c.Request().URL.RequestURI()
	if c.Request().Method != http.MethodGet {
		if here = paths.Create; !request.From(c.Request().Context()).Role.Allows(people.Editor) {
			here = paths.Tasks
		}
	}
	route := c.Path()
	if route == paths.Tasks && c.Request().Method == http.MethodPost { // a form, together with its errors
		route = paths.Create
	}
	frame := ui.Frame{Title: title, Section: section, Here: here, Help: help.Page(route), Crumbs: crumbs, Version: version}
	if info := request.From(c.Request().Context()); info.HasAccounts {
		if frame.IsSignedOut = !info.Who.IsKnown() || info.Who.Duty != ""; !frame.IsSignedOut {
			frame.Account = &ui.Account{Name: info.Who.Name, IsAdmin: info.Who.IsAdmin, Project: info.Project.ID,
				Projects: info.Who.Projects, Role: info.Role}
		}
	}
	if what := c.QueryParam("done"); slices.Contains(toasts, what) {
		frame.Toast = Locale(c).Text("done." + what)
	}
	frame.LeftOut = noticed(c)
	return frame
}

// TaskCrumbs returns the breadcrumbs from the list of tasks to a task or, with more, to one of its pages.
func TaskCrumbs(c echo.Context, task db.Task, more ...ui.Crumb) []ui.Crumb {
	crumbs := []ui.Crumb{{Text: Locale(c).Text("nav.tasks"), Href: paths.Tasks}, {Text: task.Name}}
	if len(more) > 0 {
		crumbs[1].Href = paths.Task(task.ID)
	}
	return append(crumbs, more...)
}

// Variant returns the number of the variant in the query; 0 means that the query has none.
func Variant(c echo.Context, task db.Task) (number int, err error) {
	asked := c.QueryParam("variant")
	if asked == "" {
		return 0, nil
	}
	if number, err = strconv.Atoi(asked); err != nil || number < 1 || number > task.TotalVariants {
		return 0, request.ParameterFault("variant", request.Between(1, task.TotalVariants))
	}
	return number, nil
}

// Flag returns a parameter that must be true, false or absent; absent means false.
func Flag(c echo.Context, name string) (isSet bool, err error) {
	switch c.QueryParam(name) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, request.ParameterFault(name, request.Boolean())
}

// Render sends a page, or a part of one for htmx.
func Render(c echo.Context, status int, component templ.Component) error {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	header.Add("Vary", "HX-Request")
	if status == http.StatusServiceUnavailable {
		header.Set(echo.HeaderRetryAfter, request.RetryAfter)
	}
	c.Response().WriteHeader(status)
	return component.Render(c.Request().Context(), c.Response())
}

// DefaultSize is the number of entries on a page of a list, unless the parameter page_size sets another.
const DefaultSize = 20

// Window returns the page of a list that the parameters page and page_size ask for.
func Window(c echo.Context) (db.Page, error) { return WindowOf(c, "page") }

// WindowOf is like Window, but reads the page number from the parameter with the given name, so that one page can have
// two lists.
func WindowOf(c echo.Context, name string) (db.Page, error) { return window(c, name, DefaultSize) }

// SizedWindow is like Window, but usual is the default number of entries.
func SizedWindow(c echo.Context, usual int) (db.Page, error) { return window(c, "page", usual) }

func window(c echo.Context, name string, usual int) (db.Page, error) {
	page := db.Page{Number: 1, Size: usual}
	for _, parameter := range []struct {
		name string
		most int
		to   *int
	}{{name, 1_000_000, &page.Number}, {"page_size", 100, &page.Size}} {
		value := strings.TrimSpace(c.QueryParam(parameter.name))
		if value == "" {
			continue
		}
		number, err := strconv.Atoi(value)
		if err != nil || number < 1 || number > parameter.most {
			return page, request.ParameterFault(parameter.name, request.Between(1, parameter.most))
		}
		*parameter.to = number
	}
	return page, nil
}

// NewPager returns the links to the pages of a list; query is the list's query without the parameter "page".
func NewPager(path string, query url.Values, page db.Page, total int) ui.Pager {
	return NewSizedPager(path, query, page, total, DefaultSize)
}

// NewSizedPager is like NewPager, but usual is the default number of entries.
func NewSizedPager(path string, query url.Values, page db.Page, total, usual int) ui.Pager {
	if page.Size != usual {
		query.Set("page_size", strconv.Itoa(page.Size))
	}
	return ui.Pager{Path: path, Query: query, Page: page.Number, Size: page.Size, Total: total}
}

// RedirectPastEnd redirects to the last page of a list, with a notice, if the requested page is beyond the list's end.
func RedirectPastEnd(c echo.Context, pager ui.Pager) (redirected bool, err error) {
	if pager.Page <= pager.Pages() {
		return false, nil
	}
	last := KeepNotice(c, pager.Href(pager.Pages()))
	return true, c.Redirect(http.StatusSeeOther, noticing(last, cmp.Or(pager.Name, "page"), strconv.Itoa(pager.Page)))
}

// browserCookie is the cookie with the browser's id, to which staged files and sealed secrets belong.
const browserCookie = "browser"

// Browser returns the id of the request's browser. A browser without an id is given one.
func Browser(c echo.Context) string {
	if id, isKnown := c.Get(browserCookie).(string); isKnown {
		return id
	}
	id := rand.Text()
	isSecure := request.From(c.Request().Context()).IsSecure
	if cookie, err := c.Cookie(request.CookieName(isSecure, browserCookie)); err == nil && form.IsToken(cookie.Value) {
		id = cookie.Value
	} else {
		SetCookie(c, browserCookie, id, Year)
	}
	// The users of one browser get different ids.
	if user := request.From(c.Request().Context()).Who.UserID; user != uuid.Nil {
		sum := sha256.Sum256([]byte(id + user.String()))
		id = base32.StdEncoding.EncodeToString(sum[:])[:len(id)]
	}
	c.Set(browserCookie, id)
	return id
}

// Year is how long browsers keep a user's choices.
const Year = 365 * 24 * time.Hour

// SetCookie sets a cookie that scripts cannot read and that other sites' pages do not send. A lifetime of 0 removes the
// cookie. Over HTTPS, it also removes an older cookie whose name lacks the prefix __Host-.
func SetCookie(c echo.Context, name, value string, lasts time.Duration) {
	isSecure := request.From(c.Request().Context()).IsSecure
	set := func(name, value string, lasts time.Duration) {
		age := int(lasts.Seconds())
		if age <= 0 {
			age = -1
		}
		//nolint:gosec // Secure follows the request: an installation without HTTPS keeps choices, too
		c.SetCookie(&http.Cookie{
			Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: isSecure, SameSite: http.SameSiteLaxMode,
		})
	}
	set(request.CookieName(isSecure, name), value, lasts)
	if _, err := c.Cookie(name); isSecure && err == nil {
		set(name, "", 0)
	}
}
