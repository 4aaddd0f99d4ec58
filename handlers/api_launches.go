package handlers

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"wending/db"
)

// apiLaunch is one start of a task.
type apiLaunch struct {
	LaunchID string          `json:"launch_id"`
	Number   int             `json:"number"`
	Kind     db.LaunchKind   `json:"kind"`
	Status   db.LaunchStatus `json:"status"`
	// QuestionID is the one question that was retried; null: all.
	QuestionID   *string       `json:"question_id"`
	RequestedBy  string        `json:"requested_by"`
	RequestedVia string        `json:"requested_via"`
	StoppedBy    string        `json:"stopped_by"`
	Units        int           `json:"units"`
	CreatedAt    apiTime       `json:"created_at"`
	StartedAt    *apiTime      `json:"started_at"`
	FinishedAt   *apiTime      `json:"finished_at"`
	Statistics   db.Statistics `json:"statistics"`
}

func apiLaunchOf(l db.Launch) apiLaunch {
	return apiLaunch{LaunchID: l.ID.String(), Number: l.Number, Kind: l.Kind, Status: l.Status, QuestionID: l.QuestionID,
		RequestedBy: l.RequestedBy, RequestedVia: l.RequestedVia, StoppedBy: l.StoppedBy, Units: l.TotalUnits,
		CreatedAt: apiTime(l.CreatedAt), StartedAt: apiTimeOf(l.StartedAt), FinishedAt: apiTimeOf(l.FinishedAt), Statistics: l.Statistics}
}

// apiLaunches lists a task's launches, newest first.
func (s *Server) apiLaunches(c echo.Context) error {
	task, err := s.task(c)
	if err != nil {
		return err
	}
	launches, page, total, err := s.listLaunches(c, task)
	if err != nil {
		return err
	}
	list := struct {
		Items      []apiLaunch   `json:"items"`
		Pagination apiPagination `json:"pagination"`
	}{Items: []apiLaunch{}, Pagination: apiPagination{page.Number, page.Size, total}}
	for _, launch := range launches {
		list.Items = append(list.Items, apiLaunchOf(launch))
	}
	return c.JSON(http.StatusOK, list)
}

func (s *Server) apiLaunch(c echo.Context) error {
	_, launch, err := s.taskLaunch(c)
	if err != nil {
		return err
	}
	return c.JSON(http.StatusOK, apiLaunchOf(launch))
}

// apiLaunchRun is a run in the history of its launch.
type apiLaunchRun struct {
	// RunID leads to the whole response: /runs/{run_id}.
	RunID      int64  `json:"run_id"`
	QuestionID string `json:"question_id"`
	apiRun
	// IsCurrent is false when a later launch has asked again.
	IsCurrent bool `json:"is_current"`
	// IsCut says that response_body is only the beginning.
	IsCut bool `json:"is_cut"`
}

// historyCut is how many characters of a response the history by the API has.
const historyCut = 20_000

// apiLaunchRuns lists the runs of one launch in the order they ended.
func (s *Server) apiLaunchRuns(c echo.Context) error {
	_, launch, err := s.taskLaunch(c)
	if err != nil {
		return err
	}
	runs, page, total, err := s.listRuns(c, launch, historyCut)
	if err != nil {
		return err
	}
	list := struct {
		Items      []apiLaunchRun `json:"items"`
		Pagination apiPagination  `json:"pagination"`
	}{Items: []apiLaunchRun{}, Pagination: apiPagination{page.Number, page.Size, total}}
	for _, run := range runs {
		list.Items = append(list.Items, apiLaunchRun{RunID: run.ID, QuestionID: run.QuestionID, IsCurrent: run.IsCurrent, IsCut: run.ResponseLength > historyCut,
			apiRun: apiRun{run.RunIndex, run.Status, run.Response, nil, run.LatencyMS, run.Attempts, run.ErrorCode, run.ErrorMessage, apiTime(run.CreatedAt)}})
	}
	return c.JSON(http.StatusOK, list)
}
