package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"

	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/engine"
	"wending/db/measure"
	"wending/db/report"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/replay"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/system"
	"wending/views/taskpages"
	"wending/views/ui"
)

const (
	// deliveriesShown is the maximum number of messages to channels that a task's page lists, newest first.
	deliveriesShown = 10
	// firstShown is the maximum number of questions that the page of a draft shows.
	firstShown = 5
)

// showTask shows the main page of a task: its progress or, once there are any, its results.
func (p *Pages) showTask(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.task(c)
	if err != nil {
		return err
	}
	overview := taskpages.Overview{}
	variant, err := pages.Variant(c, task)
	if err != nil {
		return err
	}
	if overview.Live, err = p.readLive(ctx, task, variant); err != nil {
		return err
	}
	if task.IsDraft() {
		if overview.First, err = p.report.FirstItems(ctx, task.ID, firstShown); err != nil {
			return err
		}
		interval, _, err := p.Tasks.CallInterval(task.Targets[0].RateLimit)
		if err != nil {
			return err
		}
		overview.Estimate = taskpages.Estimate(pages.Locale(c), task, interval)
	}
	return pages.Render(c, http.StatusOK, taskpages.OverviewPage(p.overviewFrame(c, task), overview))
}

func (p *Pages) overviewFrame(c echo.Context, task db.Task) ui.Frame {
	frame := pages.Frame(c, p.Version, task.Name, ui.SectionTasks)
	frame.Here = paths.Task(task.ID)
	frame.Styles, frame.Scripts = []string{"list.css", "task.css", "replay.css"}, []string{"task.js"}
	frame.Morphs = true
	if task.TotalVariants > 1 { // the style sheet for the variants' statistics
		frame.Styles = append(frame.Styles, "report.css")
	}
	return frame
}

// liveTask sends the part of a task's page that changes while the task runs.
func (p *Pages) liveTask(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, paths.Task(task.ID))
	}
	variant, err := pages.Variant(c, task)
	if err != nil {
		return err
	}
	live, err := p.readLive(c.Request().Context(), task, variant)
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, taskpages.LivePart(p.overviewFrame(c, task), live))
}

// readLive returns the current state of a task for its page. variant is the variant whose levels the board shows; in a
// task with several variants, 0 means that it shows none.
func (p *Pages) readLive(ctx context.Context, task db.Task, variant int) (live taskpages.Live, err error) {
	live.Task = task
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { live.Progress, err = p.monitor.TaskProgress(ctx, task.ID); return err })
	group.Go(func() (err error) { live.Statistics, err = p.Store.TaskStatistics(ctx, task); return err })
	if !task.IsDraft() {
		group.Go(func() (err error) { live.Board, err = p.board(ctx, task, variant); return err })
	}
	if task.Status.IsActive() {
		group.Go(func() (err error) { live.Hindrance, err = p.monitor.TaskHindrance(ctx, task.ID); return err })
		group.Go(func() (err error) { live.Flights, err = replay.Flights(ctx, p.Store, task); return err })
	} else if task.HasResults {
		group.Go(func() (err error) { live.Opinions, err = p.opinions(ctx, task); return err })
	}
	if !task.Status.IsActive() && slices.ContainsFunc(task.Evaluators, db.Evaluator.IsJudge) {
		group.Go(func() (err error) { live.Judges, err = report.New(p.Store).Judges(ctx, task); return err })
	}
	if live.MaxActive = p.Tasks.MaxActiveTasks; live.MaxActive > 0 && task.Status.IsActive() {
		group.Go(func() (err error) { live.Before, err = engine.NewLanes(p.Store).BeforeTask(ctx, task.ID); return err })
	}
	group.Go(func() (err error) { live.Latencies, err = p.monitor.LatencyBars(ctx, task.ID); return err })
	group.Go(func() (err error) { live.Outcomes, err = p.monitor.OutcomeBars(ctx, task.ID); return err })
	group.Go(func() error {
		latest, _, err := p.history.Launches(ctx, task.ID, db.Page{Number: 1, Size: 1})
		live.AsksJudgesAlone = len(latest) > 0 && (latest[0].Kind == db.LaunchEvaluate || latest[0].Kind == db.LaunchMeaning)
		return err
	})
	err = group.Wait()
	return live, err
}

// board returns the state of each question and, for questions that are assessed, the level of the given variant's
// answers.
func (p *Pages) board(ctx context.Context, task db.Task, variant int) (taskpages.Board, error) {
	states, err := p.monitor.Board(ctx, task)
	if err != nil {
		return taskpages.Board{}, err
	}
	of := variant
	if task.TotalVariants == 1 {
		of, variant = 1, 0
	}
	var levels []measure.Level
	if of > 0 {
		if levels, err = p.report.LevelsOfItems(ctx, task.ID, of); err != nil {
			return taskpages.Board{}, err
		}
	}
	board := taskpages.NewBoard(states, levels)
	board.Variant = variant
	return board, nil
}

// opinions returns the number of a task's questions for each opinion that people have of them.
func (p *Pages) opinions(ctx context.Context, task db.Task) (map[string]int, error) {
	reviews, err := p.reader.Reviews(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	counts := map[string]int{results.ReviewOpen: task.TotalItems}
	for _, verdicts := range reviews.OfQuestions {
		if len(verdicts) > 0 {
			counts[results.Opinion(verdicts)]++
			counts[results.ReviewOpen]--
		}
	}
	return counts, nil
}

// showSettings shows the settings of a task, and the forms that change it or add to it.
func (p *Pages) showSettings(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	return p.renderSettings(c, http.StatusOK, task, nil)
}

// renderSettings shows the page of a task's settings; refused is the preview of a file of questions that could not be
// added, or nil.
func (p *Pages) renderSettings(c echo.Context, status int, task db.Task, refused *ui.Preview) error {
	ctx := c.Request().Context()
	s := taskpages.Settings{Task: task, AgentURL: task.ShownURL(), Refused: refused}
	_, isCeiling, err := p.Tasks.CallInterval(task.Targets[0].RateLimit)
	if err != nil {
		return err
	}
	if isCeiling {
		s.RateCeiling = p.Tasks.RateCeiling
	}
	if s.Channels, err = p.Library.ChannelNames(ctx, task); err != nil {
		return err
	}
	if s.Deliveries, s.DeliveryCount, err = p.Library.Outbox.OfTask(ctx, task.ID, deliveriesShown); err != nil {
		return err
	}
	if task.HasResults {
		chosen := make([]string, len(task.Evaluators))
		for n, evaluator := range task.Evaluators {
			chosen[n] = evaluator.EvaluatorID.String()
		}
		if s.Evaluators, err = p.forms.SavedEvaluators(ctx, pages.Locale(c), chosen); err != nil {
			return err
		}
		if s.Groupers, err = p.forms.SavedModels(ctx); err != nil {
			return err
		}
	}
	l := pages.Locale(c)
	frame := pages.Frame(c, p.Version, l.Text("task.tab.of", "Tab", l.Text("task.tab.settings"), "Name", task.Name),
		ui.SectionTasks)
	frame.Here = paths.TaskSettings(task.ID)
	frame.Styles = []string{"list.css", "form.css", "task.css"}
	return pages.Render(c, status, taskpages.SettingsPage(frame, s))
}

// registerActions registers the actions of the buttons on a task's page.
func (p *Pages) registerActions(group *echo.Group) {
	for name, action := range map[string]func(context.Context, db.Actor, db.Task) (db.Task, error){
		"run": p.Tasks.Start, "stop": p.Tasks.Stop, "resume": p.Tasks.Resume,
	} {
		group.POST("/tasks/:taskId/"+name, func(c echo.Context) error {
			task, err := p.task(c)
			if err != nil {
				return err
			}
			if _, err := action(c.Request().Context(), pages.Actor(c), task); err != nil {
				return err
			}
			return pages.Done(c, paths.Task(task.ID), name)
		})
	}
	group.POST("/tasks/:taskId/retry", p.retryTask)
	group.POST("/tasks/:taskId/extend", p.extendTask)
	group.POST("/tasks/:taskId/confirm", p.confirmChanges)
	group.POST("/tasks/:taskId/evaluate", p.evaluateTask)
	group.POST("/tasks/:taskId/meanings", p.groupAnswers)
	group.POST("/tasks/:taskId/items", p.appendQuestions)
}

// evaluateTask has the evaluators in a form judge the answers of a task.
func (p *Pages) evaluateTask(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	defer submitted.Release()
	if _, err := form.Evaluate(c.Request().Context(), p.Tasks, p.Library, task, submitted); err != nil {
		return err
	}
	return pages.Done(c, paths.Task(task.ID), "evaluate")
}

// groupAnswers has the model in a form group the answers of a task by meaning.
func (p *Pages) groupAnswers(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	defer submitted.Release()
	if _, err := form.Group(c.Request().Context(), p.Tasks, p.Library, task, submitted); err != nil {
		return err
	}
	return pages.Done(c, paths.Task(task.ID), "group")
}

// appendQuestions adds the questions in a file to a task.
func (p *Pages) appendQuestions(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	defer submitted.Release()
	staged := submitted.Value("dataset_token")
	if submitted.File == nil && staged != "" { // the file was staged while its content was being confirmed
		file, err := p.Staging.Get(c.Request().Context(), pages.Browser(c), staged)
		if err != nil {
			return err
		}
		submitted = submitted.WithFile(file)
	}
	if _, err := form.Append(c.Request().Context(), p.Tasks, task, submitted); err != nil {
		if found := pages.Disclosure(c, err, c.Request().URL.Path, nil); found != nil {
			return p.confirmAppended(c, *found, submitted)
		}
		if refused := request.FaultOf(err); refused.Status() == http.StatusUnprocessableEntity {
			return p.renderSettings(c, refused.Status(), task, pages.Refusal(c, refused))
		}
		return err
	}
	p.Staging.Drop(c.Request().Context(), pages.Browser(c), staged)
	return pages.Done(c, paths.Task(task.ID), "append")
}

// confirmAppended asks for confirmation of sensitive content in questions that are to be added to a task, or in the
// task itself. The file is staged in the meantime.
func (p *Pages) confirmAppended(c echo.Context, found ui.Disclosure, submitted *form.Upload) error {
	token, err := p.Staging.Put(c.Request().Context(), pages.Browser(c), submitted.File.File)
	if err != nil {
		return err
	}
	found.Values = url.Values{"dataset_token": {token}}
	for name, value := range submitted.Values {
		if name != "dataset_token" {
			found.Values.Set(name, value)
		}
	}
	submitted.Release()
	return p.askToConfirm(c, found)
}

// extendTask adds runs to the questions of a task.
func (p *Pages) extendTask(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	defer submitted.Release()
	questionIDs, runs, err := form.Extended(submitted, task)
	if err != nil {
		return err
	}
	if _, err := p.Tasks.Extend(c.Request().Context(), pages.Actor(c), task, questionIDs, runs); err != nil {
		return err
	}
	return pages.Done(c, paths.Task(task.ID), "extend")
}

func (p *Pages) retryTask(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	scope, err := form.RetryScope(c.Request(), submitted)
	if err != nil {
		return err
	}
	retried, err := p.Tasks.Retry(c.Request().Context(), pages.Actor(c), task, scope)
	if err != nil {
		return err
	}
	if scope.QuestionID != "" && request.IsFragment(c.Request()) { // the reader stays on the report
		items, _, err := p.report.Items(c.Request().Context(), task.ID, report.Filter{QuestionID: scope.QuestionID},
			db.Page{Number: 1, Size: 1})
		if err != nil || len(items) == 0 {
			return err
		}
		return p.showCard(c, retried, items[0].ID)
	}
	return pages.Done(c, paths.Task(task.ID), "retry")
}

func (p *Pages) deleteTask(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	if err := form.Delete(c.Request().Context(), p.Tasks, task); err != nil {
		return err
	}
	return pages.Done(c, paths.Tasks, "deleted")
}

// setCeiling sets the maximum cost of a task.
func (p *Pages) setCeiling(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	defer submitted.Release()
	ceiling, faults := form.Ceiling(submitted)
	if len(faults) > 0 {
		return faults[0].Fault
	}
	if err := engine.NewSpending(p.Store).SetCeiling(c.Request().Context(), task.ID, ceiling); err != nil {
		return err
	}
	return pages.Done(c, paths.Task(task.ID), "stored")
}

// downloadDataset sends a task's file of questions as it was uploaded or, if questions were added later, a file with
// all of them.
func (p *Pages) downloadDataset(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	file, questions, err := p.Tasks.DatasetFile(c.Request().Context(), task)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	pages.SendFile(c, file, questions.Name, questions.Extension)
	return nil
}

// moved returns a handler that redirects an address from an older version of the product, so that old links still work.
func (p *Pages) moved(to func(c echo.Context, task db.Task) string) echo.HandlerFunc {
	return func(c echo.Context) error {
		task, err := p.task(c)
		if err != nil {
			return err
		}
		return c.Redirect(http.StatusMovedPermanently, to(c, task))
	}
}

// launchesMoved returns the current address of a task's list of launches.
func launchesMoved(c echo.Context, task db.Task) string {
	if page := c.QueryParam("page"); page != "" {
		return paths.WithQuery(paths.Gallery(task.ID), url.Values{"launches": {page}}) + "#launches"
	}
	return paths.Launches(task.ID)
}

// signOffMoved returns the current address of a review's summary.
func signOffMoved(_ echo.Context, task db.Task) string { return paths.Review(task.ID) }

// listWorkers shows the worker processes, and the processes that refused to start.
func (p *Pages) listWorkers(c echo.Context) error {
	workers, err := p.monitor.Workers(c.Request().Context())
	if err != nil {
		return err
	}
	refused, err := p.monitor.RefusedProcesses(c.Request().Context())
	if err != nil {
		return err
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, system.WorkersPart(workers, refused))
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("workers.title"), ui.SectionSystem)
	frame.Styles, frame.Morphs = []string{"list.css"}, true
	return pages.Render(c, http.StatusOK, system.WorkersPage(frame, workers, refused))
}

// runText sends the whole text of one run, byte for byte, as plain text.
func (p *Pages) runText(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	id, err := request.RunID(c.Param("runId"))
	if err != nil {
		return err
	}
	ctx := c.Request().Context()
	leave, err := pages.Gates(c).Pages.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	return pages.Gates(c).Responses.Through(&c.Response().Writer, func() error {
		answer, err := p.report.RunResponse(ctx, task.ID, id)
		if err != nil {
			return err
		}
		header := c.Response().Header()
		header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		header.Set(echo.HeaderContentType, "text/plain; charset=utf-8")
		c.Response().WriteHeader(http.StatusOK)
		_, err = c.Response().Write(answer)
		return err
	}, leave)
}
