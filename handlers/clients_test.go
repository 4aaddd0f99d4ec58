package handlers_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/agent/agenttest"
)

// The repository's clients for Python and JavaScript create a task from a file, wait for it and read its results,
// without changes. They find operations in the OpenAPI document, so this also shows that the document describes them.
func TestTheClientsOfOtherLanguagesWork(t *testing.T) {
	t.Parallel()
	for program, script := range map[string]string{"python3": "wending.py", "node": "wending.mjs"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			path := dbtest.Need(t, program)
			s := newGuardedSite(t)
			token := s.token(t, people.Editor, db.DefaultProject, nil)
			fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
				agenttest.Stream(w, "答 "+call.Question)
			})
			file := filepath.Join(t.TempDir(), "问题 1.csv")
			require.NoError(t, os.WriteFile(file, []byte("question_id,question,standard_answer\nq1,甲,a\nq2,乙,b\n"), 0o600))
			client := func(token, agent string) (string, error) {
				command := exec.CommandContext(t.Context(), path, filepath.Join("api", "clients", script), agent, file)
				command.Env = append(os.Environ(), "WENDING_SERVER="+s.URL, "WENDING_TOKEN="+token,
					"PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8")
				output, err := command.CombinedOutput()
				return string(output), err
			}
			output, err := client(token, fake.URL)
			require.NoError(t, err, output)
			require.Equal(t, []string{"status: SUCCEEDED", "agreement: 1", "q1: identical AAA", "q2: identical AAA",
				"report: 2 rows"}, strings.Split(strings.ReplaceAll(strings.TrimSpace(output), "1.0\n", "1\n"), "\n"))
			require.Len(t, fake.Calls(), 6)
			output, err = client(token, "no address")
			require.Error(t, err)
			require.Contains(t, output, "refused: 422 AGENT_URL_INVALID")
			output, err = client("wnd_WRONG", fake.URL)
			require.Error(t, err)
			require.Contains(t, output, "refused: 401 UNAUTHENTICATED")
		})
	}
}
