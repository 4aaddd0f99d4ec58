package handlers_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/handlers"
	"wending/jobs/agent/agenttest"
	"wending/jobs/blob"
)

// On a full disk nothing new begins, whichever page or endpoint is used, and the message says what to do. The page of
// storage warns before that.
func TestNothingBeginsOnAFullDisk(t *testing.T) {
	t.Parallel()
	const size = 100 << 30
	var free atomic.Uint64
	free.Store(50 << 30)
	s := newSiteAt(t, dbtest.URL(t), 2, handlers.Access{}, func(config *handlers.Config) {
		config.Space = func() (blob.Space, error) { return blob.Space{Free: free.Load(), Total: size}, nil }
		config.NextBackup = func(time.Time) time.Time { return time.Date(2031, 5, 6, 7, 8, 0, 0, time.UTC) }
	})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "ok") })
	done := s.create(t, fake.URL, map[string]string{"file@q.csv": "question,standard_answer\nq,a\n", "runs_per_item": "1"})
	s.awaitDone(t, done)
	archive := s.get(t, api+"/"+done+"/archive")
	require.Equal(t, http.StatusOK, archive.StatusCode)
	require.Contains(t, string(s.get(t, "/storage").body), "已用 50%")
	backup := s.get(t, "/storage").page(t).Find("p:contains(下次定时备份)").Text()
	require.Contains(t, backup, "2031-05-06 15:08")

	free.Store(9 << 30)
	require.Contains(t, string(s.get(t, "/storage").body), "达到 95% 后")
	draft := s.create(t, fake.URL, map[string]string{"start": "false"})

	free.Store(4 << 30)
	require.Contains(t, string(s.get(t, "/storage").body), "磁盘已用 96%")
	for name, answer := range map[string]response{
		"a new task": s.post(t, api, map[string]string{"task_name": "t", "agent_api_url": fake.URL,
			"file@q.csv": "question,standard_answer\nq,a\n"}),
		"a draft's start": s.post(t, api+"/"+draft+"/run", nil),
		"more runs":       s.post(t, api+"/"+done+"/extend", map[string]string{"runs_per_item": "3"}),
		"more questions": s.post(t, api+"/"+done+"/items",
			map[string]string{"file@q.csv": "question,standard_answer\nr,a\n"}),
		"an archive": s.importArchive(t, archive.body),
	} {
		require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode, "%s: %.300s", name, answer.body)
		var refused object
		answer.into(t, &refused)
		require.Equal(t, "SERVICE_UNAVAILABLE", refused["code"], name)
		require.Contains(t, refused["message"], "96%", name)
		require.Contains(t, refused["message"], "删除", name)
	}
	page := s.do(t, s.form(t, "/tasks", map[string]string{"task_name": "t", "agent_api_url": fake.URL,
		"file@q.csv": "question,standard_answer\nq,a\n"}))
	require.Equal(t, http.StatusServiceUnavailable, page.StatusCode)
	require.Contains(t, string(page.body), "服务器的磁盘已用 96%")
	require.Zero(t, s.reports.Load(), "a full disk is not a fault of the program")

	free.Store(20 << 30)
	require.Equal(t, http.StatusAccepted, s.post(t, api+"/"+draft+"/run", nil).StatusCode)
}
