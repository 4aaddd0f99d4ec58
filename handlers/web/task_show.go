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
	"wending/db/journal"
	"wending/db/report"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/replay"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/system"
	"wending/views/taskpages"
	"wending/views/ui"
)

const (
	// newestShown is how many of the newest answers a task's page shows, newestCut how many characters of each.
	newestShown, newestCut = 8, 160
	// launchesShown is how many launches a task's page lists; the rest are on a separate page.
	launchesShown = 5
	// deliveriesShown is how many messages to channels a task's page lists, newest first.
	deliveriesShown = 10
	// launchRunCut is how many characters of each answer the page of a launch shows.
	launchRunCut = 300
	// firstShown is how many questions the page of a draft shows.
	firstShown = 5
)

// showTask shows one task: its progress, its results so far, its settings and its launches.
func (p *Pages) showTask(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	return p.renderTask(c, http.StatusOK, task, nil)
}

// renderTask renders a task's page; refused is the fault of a file of questions to add, or nil.
func (p *Pages) renderTask(c echo.Context, status int, task db.Task, refused *ui.Preview) (err error) {
	ctx := c.Request().Context()
	show := taskpages.Show{Task: task, AgentURL: task.ShownURL(), Refused: refused}
	interval, isCeiling, err := p.Tasks.CallInterval(task.Targets[0].RateLimit)
	if err != nil {
		return err
	}
	if isCeiling {
		show.RateCeiling = p.Tasks.RateCeiling
	}
	if show.Live, err = p.readLive(ctx, task); err != nil {
		return err
	}
	if task.IsDraft() {
		if show.First, err = p.report.FirstItems(ctx, task.ID, firstShown); err != nil {
			return err
		}
		show.Estimate = taskpages.Estimate(pages.Locale(c), task, interval)
	}
	if show.Channels, err = p.Library.ChannelNames(ctx, task); err != nil {
		return err
	}
	if show.Deliveries, show.DeliveryCount, err = p.Library.Outbox.OfTask(ctx, task.ID, deliveriesShown); err != nil {
		return err
	}
	if task.HasResults {
		chosen := make([]string, len(task.Evaluators))
		for n, evaluator := range task.Evaluators {
			chosen[n] = evaluator.EvaluatorID.String()
		}
		if show.Evaluators, err = p.savedEvaluators(ctx, pages.Locale(c), chosen); err != nil {
			return err
		}
	}
	frame := pages.Frame(c, p.Version, task.Name, ui.SectionTasks, pages.TaskCrumbs(c, task)...)
	frame.Styles, frame.Scripts = []string{"list.css", "form.css", "task.css", "replay.css"}, []string{"task.js"}
	return pages.Render(c, status, taskpages.ShowPage(frame, show))
}

// liveTask renders the part of a task's page that changes while the task runs.
func (p *Pages) liveTask(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, paths.Task(task.ID))
	}
	live, err := p.readLive(c.Request().Context(), task)
	if err != nil {
		return err
	}
	return pages.Render(c, http.StatusOK, taskpages.LivePart(live))
}

// readLive reads the current state for a task's page.
func (p *Pages) readLive(ctx context.Context, task db.Task) (live taskpages.Live, err error) {
	live.Task = task
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { live.Progress, err = p.monitor.TaskProgress(ctx, task.ID); return err })
	group.Go(func() (err error) { live.Statistics, err = p.Store.TaskStatistics(ctx, task); return err })
	if task.Status.IsActive() {
		group.Go(func() (err error) { live.Hindrance, err = p.monitor.TaskHindrance(ctx, task.ID); return err })
		group.Go(func() (err error) { live.Flights, err = replay.Flights(ctx, p.Store, task); return err })
	}
	if !task.Status.IsActive() && slices.ContainsFunc(task.Evaluators, db.Evaluator.IsJudge) {
		group.Go(func() (err error) { live.Judges, err = report.New(p.Store).Judges(ctx, task); return err })
	}
	if live.MaxActive = p.Tasks.MaxActiveTasks; live.MaxActive > 0 && task.Status.IsActive() {
		group.Go(func() (err error) { live.Before, err = engine.NewLanes(p.Store).BeforeTask(ctx, task.ID); return err })
	}
	group.Go(func() (err error) { live.Latencies, err = p.monitor.LatencyBars(ctx, task.ID); return err })
	group.Go(func() (err error) { live.Outcomes, err = p.monitor.OutcomeBars(ctx, task.ID); return err })
	group.Go(func() (err error) {
		live.Newest, err = p.history.Newest(ctx, task.ID, newestCut, newestShown)
		return err
	})
	group.Go(func() (err error) {
		live.Launches, live.LaunchCount, err = p.history.Launches(ctx, task.ID, db.Page{Number: 1, Size: launchesShown})
		return err
	})
	group.Go(func() (err error) { live.HasFiles, err = journal.NewAssets(p.Store).Any(ctx, task.ID); return err })
	err = group.Wait()
	return live, err
}

// registerActions adds the actions behind the buttons of a task's page.
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
	group.POST("/tasks/:taskId/evaluate", p.evaluateTask)
	group.POST("/tasks/:taskId/items", p.appendQuestions)
}

// evaluateTask has evaluators judge the answers of a task.
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

// appendQuestions adds the questions of a file to a task.
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
	if _, err := form.Append(c.Request().Context(), p.Tasks, task, submitted); err != nil {
		if refused := request.FaultOf(err); refused.Status() == http.StatusUnprocessableEntity {
			return p.renderTask(c, refused.Status(), task, pages.Refusal(c, refused))
		}
		return err
	}
	return pages.Done(c, paths.Task(task.ID), "append")
}

// extendTask adds runs to every question of a task.
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
	runs, err := form.ExtendedRuns(submitted, task)
	if err != nil {
		return err
	}
	if _, err := p.Tasks.Extend(c.Request().Context(), pages.Actor(c), task, runs); err != nil {
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
	if scope.QuestionID != "" && request.IsFragment(c.Request()) { // the report continues from where it was
		items, _, err := p.report.Items(c.Request().Context(), task.ID, report.Filter{QuestionID: scope.QuestionID}, db.Page{Number: 1, Size: 1})
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

// setCeiling changes the maximum cost of a task.
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

// downloadDataset returns a task's file as it was uploaded, or a file that includes the appended questions.
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

// listLaunches lists all launches of a task.
func (p *Pages) listLaunches(c echo.Context) error {
	task, err := p.task(c)
	if err != nil {
		return err
	}
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	launches, total, err := p.history.Launches(c.Request().Context(), task.ID, page)
	if err != nil {
		return err
	}
	pager := pages.NewPager(paths.Launches(task.ID), url.Values{}, page, total)
	if redirected, err := pages.RedirectPastEnd(c, pager); redirected {
		return err
	}
	l := pages.Locale(c)
	frame := pages.Frame(c, p.Version, l.Text("launches.title", "Name", task.Name), ui.SectionTasks, pages.TaskCrumbs(c, task, ui.Crumb{Text: l.Text("launches.crumb")})...)
	frame.Styles = []string{"list.css"}
	return pages.Render(c, http.StatusOK, taskpages.LaunchesPage(frame, taskpages.Launches{Task: task, Launches: launches, Pager: pager}))
}

// showLaunch shows one launch of a task with its runs, including those that were repeated later.
func (p *Pages) showLaunch(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := p.task(c)
	if err != nil {
		return err
	}
	id, err := request.ID(c.Param("launchId"), db.KindLaunch)
	if err != nil {
		return err
	}
	launch, err := p.history.Launch(ctx, task.ID, id)
	if err != nil {
		return err
	}
	page, err := pages.Window(c)
	if err != nil {
		return err
	}
	runs, total, err := p.history.Runs(ctx, launch.ID, launchRunCut, page)
	if err != nil {
		return err
	}
	pager := pages.NewPager(paths.Launch(task.ID, launch.ID), url.Values{}, page, total)
	if redirected, err := pages.RedirectPastEnd(c, pager); redirected {
		return err
	}
	l := pages.Locale(c)
	title := l.Text("launch.title", "Number", launch.Number)
	crumbs := pages.TaskCrumbs(c, task, ui.Crumb{Text: l.Text("launches.crumb"), Href: paths.Launches(task.ID)}, ui.Crumb{Text: title})
	frame := pages.Frame(c, p.Version, title, ui.SectionTasks, crumbs...)
	frame.Styles = []string{"list.css"}
	return pages.Render(c, http.StatusOK, taskpages.LaunchPage(frame, taskpages.Launch{Task: task, Launch: launch, Runs: runs, Pager: pager}))
}

// listWorkers shows the worker processes.
func (p *Pages) listWorkers(c echo.Context) error {
	workers, err := p.monitor.Workers(c.Request().Context())
	if err != nil {
		return err
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, system.WorkersPart(workers))
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("workers.title"), ui.SectionSystem)
	frame.Styles = []string{"list.css"}
	return pages.Render(c, http.StatusOK, system.WorkersPage(frame, workers))
}

// runText sends the whole text of one run, byte for byte. Browsers show it as text.
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
