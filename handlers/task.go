package handlers

import (
	"context"
	"net/http"
	"net/url"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/views"
)

const (
	// newestShown is how many of the newest answers a task's page shows, and newestCut how much of each.
	newestShown, newestCut = 8, 160
	// launchesShown is how many launches a task's page lists; the rest has a page of its own.
	launchesShown = 5
	// launchRunCut is how much of each answer the page of a launch shows.
	launchRunCut = 300
)

// taskPage shows one task: how far it is, what came of it so far, its settings and its launches.
func (s *Server) taskPage(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	live, err := s.liveTask(c.Request().Context(), task)
	if err != nil {
		return err
	}
	locale := s.locale(c)
	frame := s.frame(c, task.Name, views.Crumb{Text: locale.Text("nav.tasks"), Href: "/tasks"}, views.Crumb{Text: task.Name})
	return s.render(c, http.StatusOK, views.TaskView(frame, views.TaskPage{Task: task, AgentURL: shownURL(task.AgentURL), Live: live}))
}

// taskLive is the part of a task's page that changes while it runs, by which the part replaces itself.
func (s *Server) taskLive(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	if !isFragment(c) {
		return c.Redirect(http.StatusSeeOther, views.TaskPath(task, ""))
	}
	live, err := s.liveTask(c.Request().Context(), task)
	if err != nil {
		return err
	}
	return s.render(c, http.StatusOK, views.TaskUpdate(live))
}

// liveTask reads what a task's page shows of this moment.
func (s *Server) liveTask(ctx context.Context, task db.Task) (live views.TaskLive, err error) {
	live.Task = task
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) { live.Progress, err = s.Store.TaskProgress(ctx, task.ID); return err })
	group.Go(func() (err error) { live.Statistics, err = s.Store.TaskStatistics(ctx, task.ID); return err })
	group.Go(func() (err error) { live.Latencies, err = s.Store.LatencyBars(ctx, task.ID); return err })
	group.Go(func() (err error) { live.Outcomes, err = s.Store.OutcomeBars(ctx, task.ID); return err })
	group.Go(func() (err error) {
		live.Newest, err = s.Store.NewestRuns(ctx, task.ID, newestCut, newestShown)
		return err
	})
	group.Go(func() (err error) {
		live.Launches, live.LaunchCount, err = s.Store.Launches(ctx, task.ID, db.Page{Number: 1, Size: launchesShown})
		return err
	})
	err = group.Wait()
	return live, err
}

// launchesPage lists every start of a task.
func (s *Server) launchesPage(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	launches, page, total, err := s.listLaunches(c, task)
	if err != nil {
		return err
	}
	locale := s.locale(c)
	frame := s.frame(c, locale.Text("launches.title", "Name", task.Name), views.Crumb{Text: locale.Text("nav.tasks"), Href: "/tasks"},
		views.Crumb{Text: task.Name, Href: views.TaskPath(task, "")}, views.Crumb{Text: locale.Text("launches.crumb")})
	return s.render(c, http.StatusOK, views.LaunchesView(frame, task, launches, newPager(views.TaskPath(task, "/launches"), url.Values{}, page, total)))
}

// listLaunches reads the page of a request and a task's launches on it.
func (s *Server) listLaunches(c echo.Context, task db.Task) (launches []db.Launch, page db.Page, total int, err error) {
	page, f := pageOf(c)
	if f != nil {
		return nil, page, 0, f
	}
	launches, total, err = s.Store.Launches(c.Request().Context(), task.ID, page)
	return launches, page, total, err
}

// listRuns reads the page of a request and a launch's runs on it, with at most limit characters of each answer.
func (s *Server) listRuns(c echo.Context, launch db.Launch, limit int) (runs []db.LaunchRun, page db.Page, total int, err error) {
	page, f := pageOf(c)
	if f != nil {
		return nil, page, 0, f
	}
	runs, total, err = s.Store.LaunchRuns(c.Request().Context(), launch.ID, limit, page)
	return runs, page, total, err
}

// launchPage shows one start of a task with the runs that it made, also those that were asked again later.
func (s *Server) launchPage(c echo.Context) error {
	task, launch, err := s.taskLaunch(c)
	if err != nil {
		return err
	}
	runs, page, total, err := s.listRuns(c, launch, launchRunCut)
	if err != nil {
		return err
	}
	locale := s.locale(c)
	title := locale.Text("launch.title", "Number", launch.Number)
	frame := s.frame(c, title, views.Crumb{Text: locale.Text("nav.tasks"), Href: "/tasks"}, views.Crumb{Text: task.Name, Href: views.TaskPath(task, "")},
		views.Crumb{Text: locale.Text("launches.crumb"), Href: views.TaskPath(task, "/launches")}, views.Crumb{Text: title})
	return s.render(c, http.StatusOK, views.LaunchView(frame, views.LaunchPage{Task: task, Launch: launch, Runs: runs,
		Pager: newPager(views.TaskPath(task, "/launches/"+launch.ID.String()), url.Values{}, page, total)}))
}

// taskLaunch returns the task and the launch that the path names.
func (s *Server) taskLaunch(c echo.Context) (task db.Task, launch db.Launch, err error) {
	if task, err = s.task(c); err != nil {
		return task, launch, err
	}
	id, err := uuid.Parse(c.Param("launchId"))
	if err != nil {
		return task, launch, fault(http.StatusNotFound, "LAUNCH_NOT_FOUND")
	}
	launch, err = s.Store.Launch(c.Request().Context(), task.ID, id)
	if err != nil && faultOf(err).Status == http.StatusNotFound {
		err = &Fault{Status: http.StatusNotFound, Code: "LAUNCH_NOT_FOUND", Cause: err}
	}
	return task, launch, err
}

// workersPage shows who is at work.
func (s *Server) workersPage(c echo.Context) error {
	workers, err := s.Store.Workers(c.Request().Context())
	if err != nil {
		return err
	}
	if isFragment(c) {
		return s.render(c, http.StatusOK, views.WorkersPart(workers))
	}
	title := s.locale(c).Text("workers.title")
	return s.render(c, http.StatusOK, views.WorkersView(s.frame(c, title), workers))
}
