package handlers_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/handlers"
)

// The cost of authentication: the time for a task's page and for the list, with a token and with a session, as
// multiples of the time without accounts.
func BenchmarkAccess(b *testing.B) {
	database := dbtest.URL(b)
	open := newSiteAt(b, database, 0, handlers.Access{})
	id := dbtest.Seed(b, open.tables, 50, 20, 5).String()
	closed := &guarded{site: newSiteAt(b, database, 0, handlers.Access{HasAccounts: true})}
	closed.people = people.New(closed.store)
	owner := closed.user(b, "李雷", people.Editor, db.DefaultProject)
	token, session := closed.token(b, people.Admin, db.DefaultProject, &owner.ID), closed.signedIn(b, "李雷").session(b)
	ask := func(b *testing.B, base, path string, prove func(*http.Request)) {
		for b.Loop() {
			request, err := http.NewRequest(http.MethodGet, base+path, nil)
			require.NoError(b, err)
			prove(request)
			answer, err := http.DefaultTransport.RoundTrip(request)
			require.NoError(b, err)
			_, _ = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			require.Equal(b, http.StatusOK, answer.StatusCode)
		}
	}
	for name, path := range map[string]string{"list": "/tasks", "task": api + "/" + id} {
		alone := 0.0
		for _, way := range []struct {
			name  string
			base  string
			prove func(*http.Request)
		}{
			{"without accounts", open.URL, func(*http.Request) {}},
			{"token", closed.URL, func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) }},
			{"session", closed.URL, func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "wending", Value: session}) }},
		} {
			b.Run(name+"/"+way.name, func(b *testing.B) {
				ask(b, way.base, path, way.prove)
				each := float64(b.Elapsed().Microseconds()) / float64(b.N)
				if alone == 0 {
					alone = each
				}
				b.ReportMetric(each/alone, "×without")
			})
		}
	}
}
