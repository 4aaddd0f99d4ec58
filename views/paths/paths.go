// Package paths holds the path of every page and endpoint, once. Its functions return addresses; their comments
// describe the page at the address, or the effect of a request to it.
package paths

import (
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// Fixed paths.
const (
	Create = "/"
	Demo   = "/demo"
	// DemoComparison is the address that creates the demo's comparison of models.
	DemoComparison = "/demo/comparison"
	Tasks          = "/tasks"
	TaskRows       = "/tasks/rows"
	TaskColumns    = "/tasks/columns"
	// TaskHistory is the page of all tasks on one dataset, or of one agent.
	TaskHistory = "/tasks/history"
	Import      = "/tasks/import"
	// ImportAnswers is the form for a file of answers that were made elsewhere.
	ImportAnswers = "/answers"
	// PreviewAnswers shows what a file of answers contains.
	PreviewAnswers = "/answers/preview"
	// DatasetTemplate is an example of a file of questions, in the format that the parameter format names.
	DatasetTemplate = "/dataset-template"
	Preview         = "/tasks/preview"
	Probe           = "/tasks/probe"
	// SaveAgent is the address that saves the agent of a form that is being filled in.
	SaveAgent = "/tasks/agent"
	Language  = "/language"
	Settings  = "/settings"
	Workers   = "/workers"
	Storage   = "/storage"
	// Live responds with success while the process runs.
	Live = "/livez"
	// Ready and Health respond with success while the process can work.
	Ready  = "/readyz"
	Health = "/healthz"
	// Help is the user's guide.
	Help    = "/help"
	Metrics = "/metrics"
	OpenAPI = "/api/openapi.json"
	// MCP receives the messages of assistants, if MCP=on.
	MCP = "/mcp"
	// Traces receives the spans of agents, if OTLP_RECEIVER=true; its path is part of the protocol.
	Traces = "/v1/traces"
	// API is the prefix of the API's paths.
	API = "/api/v1"
	// APITasks is the API's collection of tasks.
	APITasks = "/api/v1/evaluation-tasks"
	// APIComparison is the address of the comparison of two tasks.
	APIComparison = "/api/v1/comparison"
	Comparison    = "/comparison"
	// PrintComparison is the comparison of two tasks as one document.
	PrintComparison = "/comparison/print"
	// NewComparison is the form for a task that compares prompts, models and agents.
	NewComparison      = "/compare"
	EstimateComparison = "/compare/estimate"
	// Library is the start page of the library.
	Library = "/library"
	// LibraryPreview is the address that renders templates.
	LibraryPreview = "/library/prompts/preview"
	// LibraryDetect is the address that recognises protocols.
	LibraryDetect = "/library/agents/detect"
	// Login is the sign-in page, and Logout is the address that signs out.
	Login  = "/login"
	Logout = "/logout"
	// Setup is the page on which the first administrator is created.
	Setup = "/setup"
	// Passkey and PasskeyDone are the two steps of signing in with a passkey.
	Passkey     = "/login/passkey"
	PasskeyDone = "/login/passkey/done"
	// OpenID is the address that redirects to the OpenID Connect provider, and OpenIDDone is the address to which the
	// provider redirects back.
	OpenID     = "/login/oidc"
	OpenIDDone = "/login/oidc/callback"
	// OpenIDEnded is the address at which the provider reports ended sessions.
	OpenIDEnded = "/login/oidc/backchannel"
	// Account is the page of the reader's own account.
	Account  = "/account"
	Users    = "/admin/users"
	Audit    = "/admin/audit"
	Projects = "/projects"
	// Shared is the prefix of share links.
	Shared = "/shared"
	// Files is the prefix of the addresses at which agents find files, for as long as a ticket is valid.
	Files = "/files"
	// Views is the address that saves the filters and the order of a page.
	Views = "/views"
	// ScheduleTimes is the address that returns the next times of a cron expression.
	ScheduleTimes = "/library/schedules/times"
)

// HelpChapter returns the path of a chapter of the guide, at one of its sections unless that is empty.
func HelpChapter(chapter, section string) string {
	path := Help + "/" + chapter
	if section != "" {
		path += "#" + section
	}
	return path
}

// LibraryKind returns the address of the list of entries of one kind.
func LibraryKind(kind string) string { return Library + "/" + kind }

// LibraryNew returns the address of the form for a new entry.
func LibraryNew(kind string) string { return LibraryKind(kind) + "/new" }

// LibraryTest returns the address that tests a target before it is saved.
func LibraryTest(kind string) string { return LibraryKind(kind) + "/test" }

// LibraryEntry returns the address of an entry's page.
func LibraryEntry(kind string, id uuid.UUID) string { return LibraryKind(kind) + "/" + id.String() }

// Delivery returns the address that sends a message to a channel again.
func Delivery(channel uuid.UUID, id int64) string {
	return LibraryEntry("channels", channel) + "/deliveries/" + strconv.FormatInt(id, 10)
}

// LibraryVersion returns the address of a version of a prompt or a dataset.
func LibraryVersion(kind string, id uuid.UUID, number int) string {
	return LibraryEntry(kind, id) + "/versions/" + strconv.Itoa(number)
}

// LibraryVersions returns the address for adding the next version of a dataset.
func LibraryVersions(id uuid.UUID) string { return LibraryEntry("datasets", id) + "/versions" }

// Compare returns the address of the page that offers tasks to compare a task with.
func Compare(id uuid.UUID) string { return Comparison + "?a=" + id.String() }

// CompareWith returns the address of the comparison of two tasks.
func CompareWith(a, b uuid.UUID) string { return Compare(a) + "&b=" + b.String() }

// CarryReviews returns the address that lists the verdicts that can be carried over from another task to a variant of
// this task; from refers to the other task, with its variant if it has several.
func CarryReviews(id uuid.UUID, from string, variant int) string {
	return ReviewCarry(id) + "?from=" + from + "&variant=" + strconv.Itoa(variant)
}

// ReviewWorkbook returns the address to which a task's review workbook is posted.
func ReviewWorkbook(id uuid.UUID) string { return Task(id) + "/review/workbook" }

// ReviewCarry returns the address that carries verdicts over to a task.
func ReviewCarry(id uuid.UUID) string { return Task(id) + "/review/carry" }

// taskForm returns the address of the form that fits a task: the form for an agent's typed URL, or the form for
// comparisons.
func taskForm(isPlain bool) string {
	if isPlain {
		return Create
	}
	return NewComparison
}

// CreateFrom returns the address of the form for a copy of a task.
func CreateFrom(id uuid.UUID, isPlain bool) string { return taskForm(isPlain) + "?from=" + id.String() }

// EditDraft returns the address of the form for editing a draft.
func EditDraft(id uuid.UUID, isPlain bool) string { return taskForm(isPlain) + "?draft=" + id.String() }

// Task returns the address of a task's page.
func Task(id uuid.UUID) string { return Tasks + "/" + id.String() }

// TaskLive returns the address of the part of a task's page that changes while it runs.
func TaskLive(id uuid.UUID) string { return Task(id) + "/live" }

// TaskSettings returns the address of the page with a task's settings and the actions that change the task.
func TaskSettings(id uuid.UUID) string { return Task(id) + "/settings" }

// TaskAction returns the address that runs, stops, resumes or retries a task.
func TaskAction(id uuid.UUID, action string) string { return Task(id) + "/" + action }

// TaskDelete returns the address that deletes a task.
func TaskDelete(id uuid.UUID) string { return Task(id) + "/delete" }

// TaskAgent returns the address to which a form posts to save, in the library, the agent whose URL was typed into a
// task.
func TaskAgent(id uuid.UUID) string { return Task(id) + "/agent" }

// TaskDataset returns the address of the file from which a task was created.
func TaskDataset(id uuid.UUID) string { return Task(id) + "/dataset" }

// Results returns the address of a task's report.
func Results(id uuid.UUID) string { return Task(id) + "/results" }

// PartialResults returns the address of the report on the questions that are already finished, while others are not.
func PartialResults(id uuid.UUID) string { return Results(id) + "?partial=1" }

// BlankValue is the value of a column's parameter that selects the questions without a value. It is not empty,
// because forms leave out empty fields.
const BlankValue = " "

// ResultsMap returns the address of the map of a report, which has a square for each question.
func ResultsMap(id uuid.UUID, query url.Values) string { return WithQuery(Results(id)+"/map", query) }

// Conversation returns the address of the turns of one conversation in a report.
func Conversation(id uuid.UUID, series string) string {
	return WithQuery(Results(id), url.Values{"series": {series}})
}

// Question returns the address of a question of a report, given its number.
func Question(id uuid.UUID, number int) string { return Results(id) + "/" + strconv.Itoa(number) }

// MeaningOf returns the address at which a person groups a variant's answers to a question by meaning.
func MeaningOf(id uuid.UUID, number, variant int) string {
	path := Question(id, number) + "/meaning"
	if variant > 1 {
		path = WithQuery(path, url.Values{"variant": {strconv.Itoa(variant)}})
	}
	return path
}

// StandardOf returns the address of the form that corrects, in the dataset, the standard answer to a question.
func StandardOf(id uuid.UUID, number int) string { return Question(id, number) + "/standard" }

// ItemID returns the id of a question's element, which fragments of addresses use.
func ItemID(item int64) string { return "q" + strconv.FormatInt(item, 10) }

// Sent returns the address of the part of a question's card that shows the request that was sent for the question.
func Sent(id uuid.UUID, number int) string { return Question(id, number) + "?sent=1" }

// QuestionReviews returns the address of the history of the verdicts on a question.
func QuestionReviews(id uuid.UUID, number int) string { return Question(id, number) + "/reviews" }

// News returns the address that reports whether more questions of a running task are finished than the page shows.
func News(id uuid.UUID, known int) string { return Task(id) + "/news?known=" + strconv.Itoa(known) }

// Variants returns the address of the comparison of a task's variants.
func Variants(id uuid.UUID) string { return Task(id) + "/variants" }

// VariantsBy returns the address of the comparison of a task's variants, ordered by a measure.
func VariantsBy(id uuid.UUID, measure string) string {
	return WithQuery(Variants(id), url.Values{"by": {measure}})
}

// Report returns the address of the page with the figures of a task's report.
func Report(id uuid.UUID) string { return Task(id) + "/report" }

// ReportBy returns the address of the figures of a task's report, grouped by a column of the dataset.
func ReportBy(id uuid.UUID, column string) string {
	return WithQuery(Report(id), url.Values{"by": {column}}) + "#slices"
}

// Review returns the address of the page that shows the progress of a task's review, and on which it is signed off.
func Review(id uuid.UUID) string { return Task(id) + "/review" }

// Presence returns the address that a task's pages poll for the progress of its review and for what others are doing.
func Presence(id uuid.UUID) string { return Task(id) + "/presence" }

// NextReview returns the address that redirects to the next question that waits for the reader's verdict.
func NextReview(id uuid.UUID) string { return Review(id) + "/next" }

// ReviewOf returns the address of the page on which one question is judged.
func ReviewOf(id uuid.UUID, number int) string { return Review(id) + "/" + strconv.Itoa(number) }

// ReviewSettings returns the address that sets how a task is reviewed.
func ReviewSettings(id uuid.UUID) string { return Review(id) + "/settings" }

// ReviewSame returns the address of the list of questions whose answers have the same content, which can be passed
// together.
func ReviewSame(id uuid.UUID) string { return Review(id) + "/same" }

// SignOff returns the address at which a review is signed off.
func SignOff(id uuid.UUID) string { return Task(id) + "/sign-off" }

// Samples returns the address that draws a random sample of a task's answers for people to judge.
func Samples(id uuid.UUID) string { return Task(id) + "/samples" }

// Pairs returns the address of the page on which people compare two variants' answers without knowing whose they are.
func Pairs(id uuid.UUID) string { return Task(id) + "/pairs" }

// PairsOf is like Pairs, but for the two variants with these numbers.
func PairsOf(id uuid.UUID, a, b int) string { return WithQuery(Pairs(id), matchup(a, b)) }

// NextPair returns the address that redirects to the next pair that waits for the reader's verdict. after is the number
// of the question after which the search starts.
func NextPair(id uuid.UUID, a, b, after int) string {
	values := matchup(a, b)
	values.Set("after", strconv.Itoa(after))
	return WithQuery(Pairs(id)+"/next", values)
}

// PairOf returns the address of two variants' answers to a question, for a verdict.
func PairOf(id uuid.UUID, number, a, b int) string {
	return WithQuery(Pairs(id)+"/"+strconv.Itoa(number), matchup(a, b))
}

func matchup(a, b int) url.Values { return url.Values{"a": {strconv.Itoa(a)}, "b": {strconv.Itoa(b)}} }

// Assignments returns the address that assigns questions to reviewers.
func Assignments(id uuid.UUID) string { return Task(id) + "/assignments" }

// Print returns the address of a task's report as one document, for printing.
func Print(id uuid.UUID) string { return Results(id) + "/print" }

// PrintDiffering returns the address of the report of a task as one document, with only the questions whose answers
// differ or that failed.
func PrintDiffering(id uuid.UUID) string { return Print(id) + "?only=differing" }

// Launches returns the address of the list of a task's launches.
func Launches(id uuid.UUID) string { return Gallery(id) + "#launches" }

// Launch returns the address of one launch of a task.
func Launch(id, launch uuid.UUID) string { return Task(id) + "/launches/" + launch.String() }

// LaunchRuns returns the address of the page of one launch, limited to the runs with the given outcome (succeeded or
// failed) that ended between since and until. An empty outcome and nil times do not limit the runs.
func LaunchRuns(id, launch uuid.UUID, outcome string, since, until *time.Time) string {
	query := url.Values{}
	if outcome != "" {
		query.Set("outcome", outcome)
	}
	for name, at := range map[string]*time.Time{"since": since, "until": until} {
		if at != nil {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	return WithQuery(Launch(id, launch), query)
}

// ToolCalls returns the address of the list of calls of a tool by a task's runs: those with the given outcome, or all
// if outcome is empty.
func ToolCalls(id uuid.UUID, tool, outcome string) string {
	query := url.Values{"tool": {tool}}
	if outcome != "" {
		query.Set("outcome", outcome)
	}
	return WithQuery(Gallery(id), query) + "#calls"
}

// Run returns the address of the page with the whole text of one run.
func Run(id uuid.UUID, run int64) string { return Task(id) + "/runs/" + strconv.FormatInt(run, 10) }

// RunText returns the address of the whole text of one run.
func RunText(id uuid.UUID, run int64) string { return Run(id, run) + "/text" }

// APIProgress returns the address of a task's stream of progress events.
func APIProgress(id uuid.UUID) string { return APITasks + "/" + id.String() + "/progress" }

// APIReview returns the address of a person's verdict on a question.
func APIReview(id uuid.UUID, questionID string) string {
	return APITasks + "/" + id.String() + "/items/" + url.PathEscape(questionID) + "/review"
}

// APIArchive returns the address of a task with its results, as a file that another installation can import.
func APIArchive(id uuid.UUID) string { return APITasks + "/" + id.String() + "/archive" }

// APIExport returns the address of a task's report as a download.
func APIExport(id uuid.UUID, format string) string {
	return APITasks + "/" + id.String() + "/export?format=" + format
}

// SavedView returns the address that changes a saved view.
func SavedView(id uuid.UUID) string { return Views + "/" + id.String() }

// RemoveView returns the address that removes a saved view.
func RemoveView(id uuid.UUID) string { return SavedView(id) + "/remove" }

// SavedParameter names the saved view that a page should open.
const SavedParameter = "saved"

// WithView returns the address of a page in a saved view.
func WithView(path string, id uuid.UUID) string {
	return WithQuery(path, url.Values{SavedParameter: {id.String()}})
}

// ColumnPrefix is the prefix of the parameters that narrow a report by a column of its dataset.
const ColumnPrefix = "column."

// MarginPrefix is the prefix of the parameters that say how much worse a measure may be in the second of two compared
// tasks.
const MarginPrefix = "margin."

// ResultsExport returns the address of the questions of a report that match a query, as a file.
func ResultsExport(id uuid.UUID, format string, query url.Values) string {
	query = maps.Clone(query)
	query.Set("format", format)
	return WithQuery(Results(id)+"/export", query)
}

// PrintOf returns the address of the questions of a report that match a query, as one document for printing.
func PrintOf(id uuid.UUID, query url.Values) string { return WithQuery(Print(id), query) }

// WithQuery adds a query to a path.
func WithQuery(path string, query url.Values) string {
	if len(query) == 0 {
		return path
	}
	return path + "?" + query.Encode()
}

// TaskFlights returns the address of the list of a task's calls in progress.
func TaskFlights(id uuid.UUID) string { return Task(id) + "/flights" }

// UnitFiles returns the address of the files that a unit's calls have reported so far, as part of its page.
func UnitFiles(id uuid.UUID, unit int64) string { return Unit(id, unit) + "/files" }

// Unit returns the address of the page that shows a call while it is in progress, and replays it afterwards.
func Unit(id uuid.UUID, unit int64) string { return Task(id) + "/units/" + strconv.FormatInt(unit, 10) }

// UnitAt returns the address of the replay of a call at a time, in milliseconds since its start.
func UnitAt(id uuid.UUID, unit int64, ms int) string {
	return Unit(id, unit) + "#at=" + strconv.Itoa(ms)
}

// UnitLog returns the address of the log of a call, as part of its page.
func UnitLog(id uuid.UUID, unit int64) string { return Unit(id, unit) + "/log" }

// UnitSteps returns the address of the steps of a call, as part of its page.
func UnitSteps(id uuid.UUID, unit, itemID int64, count int) string {
	return fmt.Sprintf("%s/steps?item=%d&count=%d", Unit(id, unit), itemID, count)
}

// ReplayBeside returns the address of the replay of a question's runs side by side.
func ReplayBeside(id uuid.UUID, number int) string {
	return Task(id) + "/replay/" + strconv.Itoa(number)
}

// Assets returns the address of the API's collection of the files that a task's agents produced.
func Assets(id uuid.UUID) string { return APITasks + "/" + id.String() + "/assets" }

// Asset returns the address of a file that an agent produced.
func Asset(id, asset uuid.UUID) string { return Assets(id) + "/" + asset.String() }

// File returns the address of a file for clients with a ticket in the query.
func File(id, asset uuid.UUID) string { return Files + "/" + id.String() + "/" + asset.String() }

// Thumbnail returns the address of a small version of an image.
func Thumbnail(id, asset uuid.UUID) string { return Asset(id, asset) + "/thumbnail" }

// Gallery returns the address of the page on the work of a task's agents: their files, the newest calls, and the
// launches.
func Gallery(id uuid.UUID) string { return Task(id) + "/gallery" }

// APIUnitEvents returns the address of a unit's stream of events.
func APIUnitEvents(id uuid.UUID, unit int64) string {
	return APITasks + "/" + id.String() + "/units/" + strconv.FormatInt(unit, 10) + "/events"
}

// APIRunEvents returns the address of a run's events.
func APIRunEvents(id uuid.UUID, run int64) string {
	return APITasks + "/" + id.String() + "/runs/" + strconv.FormatInt(run, 10) + "/events"
}

// LoginFor returns the address of the sign-in page, which then redirects to back, a path of this site.
func LoginFor(back string) string { return WithQuery(Login, url.Values{"next": {back}}) }

// LoginAgain is like LoginFor, but for a user who is signed in and must authenticate again.
func LoginAgain(back string) string {
	return WithQuery(Login, url.Values{"again": {"1"}, "next": {back}})
}

// The page for changing the password, and the one for registering a passkey.
const (
	OwnPassword = Account + "/password"
	OwnPasskeys = Account + "/passkeys"
)

// DutyFor returns the address of the step that the user must complete first: choosing a password or registering a
// passkey. The step then redirects to back, a path of this site.
func DutyFor(duty, back string) string {
	page := OwnPassword
	if duty == "passkey" {
		page = OwnPasskeys
	}
	return WithQuery(page, url.Values{"next": {back}})
}

// User returns the address of an account's page for administrators.
func User(id uuid.UUID) string { return Users + "/" + id.String() }

// Project returns the address of a project's page.
func Project(id uuid.UUID) string { return Projects + "/" + id.String() }

// Shares returns the address of the share links of a task.
func Shares(id uuid.UUID) string { return Task(id) + "/shares" }

// Comments returns the address of readers' comments on a task.
func Comments(id uuid.UUID) string { return Task(id) + "/comments" }

// CommentAction returns the address of an action on a comment.
func CommentAction(id uuid.UUID, comment int64, action string) string {
	return Comments(id) + "/" + strconv.FormatInt(comment, 10) + "/" + action
}

// SharesOf returns the address of the page of a task's share links, with its form filled in for a kind of link and a
// question.
func SharesOf(id uuid.UUID, kind string, number int) string {
	return WithQuery(Shares(id), url.Values{"kind": {kind}, "number": {strconv.Itoa(number)}})
}

// TasksOnDataset returns the address of all tasks on a saved dataset or, if id is nil, on uploaded files with the
// given name.
func TasksOnDataset(id *uuid.UUID, file string) string {
	if id == nil {
		return WithQuery(TaskHistory, url.Values{"file": {file}})
	}
	return WithQuery(TaskHistory, url.Values{"dataset": {id.String()}})
}

// TasksOfAgent returns the address of all tasks of a saved agent or model or, if id is nil, of a typed address
// without its query.
func TasksOfAgent(id *uuid.UUID, address string) string {
	if id == nil {
		return WithQuery(TaskHistory, url.Values{"url": {address}})
	}
	return WithQuery(TaskHistory, url.Values{"agent": {id.String()}})
}

// DatasetTemplateAs returns the address of the example file of questions in the given format.
func DatasetTemplateAs(format string) string {
	return DatasetTemplate + "?" + url.Values{"format": {format}}.Encode()
}
