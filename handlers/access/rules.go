package access

import (
	"fmt"
	"slices"
	"strings"

	"wending/db/people"
	"wending/handlers/request"
)

// right names who may use a route: members of the project with a role, or one of the groups below.
type right string

// Rights in addition to the roles of a project's members: the name of each role is also a right.
const (
	// public means every client, signed in or not.
	public right = "public"
	// account means any signed-in account.
	account right = "account"
	// session means a signed-in browser, as opposed to a token.
	session right = "session"
	// leaving means a session, regardless of its owner's pending steps; passwordDuty and passkeyDuty mean a session
	// whose owner must complete exactly that step.
	leaving      right = "leaving"
	passwordDuty       = right(request.DutyPassword)
	passkeyDuty        = right(request.DutyPasskey)
	// installation means accounts that may manage accounts and projects.
	installation right = "installation"
)

// Rule states who may use a route, and how its requests are recorded in the audit log.
type Rule struct {
	right right
	// object is the kind of object in the route's path, which determines the project: "task" or a table of the
	// library; "task?" means a task that the query may name. It is empty if the path names no object.
	object string
	// action is the route's action in the audit log; if it is empty, requests are not recorded.
	action string
}

// rules lists every route with the required right, the object in its path ("-" means none), and its action in
// the audit log. The server does not start if a route is missing here.
var rules = parse(`
GET    /healthz                                          public        -
GET    /livez                                            public        -
GET    /readyz                                           public        -
GET    /static/*                                         public        -
POST   /settings                                         public        -
GET    /help                                             public        -
GET    /help/:chapter                                    public        -
GET    /metrics                                          account       -
GET    /api/openapi.json                                 account       -
POST   /mcp                                              viewer        -
POST   /v1/traces                                        editor        -

GET    /login                                            public        -
POST   /login                                            public        -
POST   /login/passkey                                    public        -
POST   /login/passkey/done                               public        -
GET    /login/oidc                                       public        -
GET    /login/oidc/callback                              public        -
POST   /login/oidc/backchannel                           public        -
GET    /logout                                           public        -
POST   /logout                                           leaving       -
GET    /setup                                            public        -
POST   /setup                                            public        -
GET    /shared/:secret                                   public        -
GET    /shared/:secret/files/:assetId                    public        -
GET    /shared/:secret/files/:assetId/thumbnail          public        -
GET    /shared/:secret/comments                          public        -
POST   /shared/:secret/comments                          public        -
GET    /files/:taskId/:assetId                           public        -

GET    /account                                          session       -
GET    /account/password                                 password      -
POST   /account/password                                 password      -               user.password
POST   /account/second                                   session       -               user.change
GET    /account/passkeys                                 passkey       -
POST   /account/passkeys                                 passkey       -
POST   /account/passkeys/done                            passkey       -               passkey.create
POST   /account/passkeys/:key/remove                     session       -               passkey.remove
POST   /account/sessions/:session/end                    session       -               session.end
POST   /account/sessions/end                             session       -               session.end

GET    /admin/users                                      installation  -
POST   /admin/users                                      installation  -               user.create
GET    /admin/users/:user                                installation  -
POST   /admin/users/:user                                installation  -               user.change
POST   /admin/users/:user/sessions                       installation  -               session.end
GET    /admin/audit                                      installation  -
GET    /api/v1/users                                     installation  -
POST   /api/v1/users                                     installation  -               user.create
GET    /api/v1/users/:id                                 installation  -
PATCH  /api/v1/users/:id                                 installation  -               user.change
GET    /api/v1/audit                                     installation  -

GET    /projects                                         account       -
POST   /projects                                         installation  -               project.create
GET    /projects/:id                                     viewer        project
POST   /projects/:id                                     installation  project         project.change
POST   /projects/:id/settings                            admin         project         project.settings
POST   /projects/:id/members                             admin         project         member.set
POST   /projects/:id/members/:user/remove                admin         project         member.remove
POST   /projects/:id/tokens                              viewer        project         token.create
POST   /projects/:id/tokens/:token/revoke                viewer        project         token.revoke
GET    /api/v1/projects                                  account       -
POST   /api/v1/projects                                  installation  -               project.create
GET    /api/v1/projects/:id                              viewer        project
PATCH  /api/v1/projects/:id                              installation  project         project.change
GET    /api/v1/projects/:id/settings                     viewer        project
PUT    /api/v1/projects/:id/settings                     admin         project         project.settings
GET    /api/v1/projects/:id/members                      viewer        project
POST   /api/v1/projects/:id/members                      admin         project         member.set
PUT    /api/v1/projects/:id/members/:user_id             admin         project         member.set
DELETE /api/v1/projects/:id/members/:user_id             admin         project         member.remove
GET    /api/v1/tokens                                    viewer        -
POST   /api/v1/tokens                                    viewer        -               token.create
DELETE /api/v1/tokens/:id                                viewer        token           token.revoke
GET    /tasks/:taskId/shares                             viewer        task
POST   /tasks/:taskId/shares                             editor        task            share.create
POST   /tasks/:taskId/shares/:share/revoke               editor        task            share.revoke
GET    /tasks/:taskId/comments                           viewer        task
POST   /tasks/:taskId/comments/:comment/done             reviewer      task            comment.finish
POST   /tasks/:taskId/comments/:comment/delete           editor        task            comment.delete
GET    /api/v1/evaluation-tasks/:task_id/comments        viewer        task
PUT    /api/v1/evaluation-tasks/:task_id/comments/:comment_id reviewer task            comment.finish
DELETE /api/v1/evaluation-tasks/:task_id/comments/:comment_id editor   task            comment.delete
GET    /api/v1/shares                                    viewer        task?
POST   /api/v1/shares                                    editor        -               share.create
DELETE /api/v1/shares/:id                                editor        share           share.revoke
GET    /api/v1/views                                     viewer        -
POST   /api/v1/views                                     reviewer      -               view.create
GET    /api/v1/views/:id                                 viewer        view
PATCH  /api/v1/views/:id                                 reviewer      view            view.change
DELETE /api/v1/views/:id                                 reviewer      view            view.remove
POST   /views                                            reviewer      -               view.create
POST   /views/:id                                        reviewer      view            view.change
POST   /views/:id/remove                                 reviewer      view            view.remove

GET    /                                                 editor        task?
POST   /language                                         editor        task?
GET    /compare                                          editor        task?
GET    /answers                                          editor        -
POST   /answers                                          editor        -               task.import
POST   /answers/preview                                  editor        -
GET    /dataset-template                                 viewer        -
POST   /compare/estimate                                 editor        -
GET    /comparison                                       viewer        task?
GET    /comparison/print                                 viewer        task?           task.print
GET    /api/v1/comparison                                viewer        task?
GET    /api/v1/comparison/export                         viewer        task?           task.export
POST   /api/v1/facts                                     viewer        -
POST   /demo                                             editor        -               task.create
POST   /demo/comparison                                  editor        -               task.create
GET    /workers                                          viewer        -
GET    /storage                                          installation  -

GET    /tasks                                            viewer        -
GET    /tasks/rows                                       viewer        -
GET    /tasks/history                                    viewer        -
POST   /tasks/columns                                    viewer        -
POST   /tasks                                            editor        -               task.create
POST   /tasks/preview                                    editor        -
POST   /tasks/probe                                      editor        -               agent.test
POST   /tasks/agent                                      editor        -               agent.create
POST   /tasks/import                                     editor        -               task.import
GET    /tasks/:taskId                                    viewer        task
GET    /tasks/:taskId/live                               viewer        task
GET    /tasks/:taskId/flights                            viewer        task
GET    /tasks/:taskId/news                               viewer        task
GET    /tasks/:taskId/variants                           viewer        task
GET    /tasks/:taskId/settings                           viewer        task
GET    /tasks/:taskId/launches                           viewer        task
GET    /tasks/:taskId/launches/:launchId                 viewer        task
GET    /tasks/:taskId/runs/:runId                        viewer        task
GET    /tasks/:taskId/runs/:runId/text                   viewer        task            run.download
GET    /tasks/:taskId/units/:unitId                      viewer        task
GET    /tasks/:taskId/units/:unitId/log                  viewer        task
GET    /tasks/:taskId/units/:unitId/steps                viewer        task
GET    /tasks/:taskId/units/:unitId/files                viewer        task
GET    /tasks/:taskId/replay/:number                     viewer        task
GET    /tasks/:taskId/gallery                            viewer        task
GET    /tasks/:taskId/report                             viewer        task
GET    /tasks/:taskId/results                            viewer        task
GET    /tasks/:taskId/results/export                     viewer        task            task.export
GET    /tasks/:taskId/results/map                        viewer        task
GET    /tasks/:taskId/results/print                      viewer        task            task.print
GET    /tasks/:taskId/results/:number                    viewer        task
GET    /tasks/:taskId/results/:number/meaning            viewer        task
POST   /tasks/:taskId/results/:number/meaning            reviewer      task            review.group
GET    /tasks/:taskId/results/:number/standard           viewer        task
POST   /tasks/:taskId/results/:number/standard           editor        task            dataset.change
GET    /tasks/:taskId/results/:number/reviews            viewer        task
GET    /tasks/:taskId/dataset                            viewer        task            dataset.download
GET    /tasks/:taskId/review                             viewer        task
GET    /tasks/:taskId/presence                           viewer        task
GET    /tasks/:taskId/review/next                        viewer        task
GET    /tasks/:taskId/review/same                        viewer        task
POST   /tasks/:taskId/review/same                        reviewer      task            review.pass
POST   /tasks/:taskId/review/same/undo                   reviewer      task            review.withdraw
GET    /tasks/:taskId/review/carry                       viewer        task
POST   /tasks/:taskId/review/carry                       reviewer      task            review.carry
POST   /tasks/:taskId/review/workbook                    reviewer      task            review.put
POST   /tasks/:taskId/review/carry/undo                  reviewer      task            review.withdraw
GET    /tasks/:taskId/review/:number                     viewer        task
GET    /tasks/:taskId/sign-off                           viewer        task
POST   /tasks/:taskId/sign-off                           reviewer      task            task.sign-off
POST   /tasks/:taskId/assignments                        reviewer      task            review.assign
POST   /tasks/:taskId/review/settings                    reviewer      task            review.set
POST   /tasks/:taskId/samples                            reviewer      task            review.sample
GET    /tasks/:taskId/pairs                              viewer        task
POST   /tasks/:taskId/pairs                              reviewer      task            review.sample
GET    /tasks/:taskId/pairs/next                         viewer        task
GET    /tasks/:taskId/pairs/:number                      viewer        task
POST   /tasks/:taskId/pairs/:number                      reviewer      task            review.compare
POST   /tasks/:taskId/agent                              editor        task            agent.create
POST   /tasks/:taskId/ceiling                            editor        task            task.change
POST   /tasks/:taskId/run                                editor        task            task.run
POST   /tasks/:taskId/stop                               editor        task            task.stop
POST   /tasks/:taskId/resume                             editor        task            task.resume
POST   /tasks/:taskId/retry                              editor        task            task.retry
POST   /tasks/:taskId/extend                             editor        task            task.extend
POST   /tasks/:taskId/confirm                            editor        task            task.confirm
POST   /tasks/:taskId/evaluate                           editor        task            task.evaluate
POST   /tasks/:taskId/meanings                           reviewer      task            task.group
POST   /tasks/:taskId/items                              editor        task            task.append
POST   /tasks/:taskId/delete                             editor        task            task.delete

GET    /api/v1/evaluation-tasks                          viewer        -
POST   /api/v1/evaluation-tasks                          editor        -               task.create
POST   /api/v1/evaluation-tasks/estimate                 editor        -
POST   /api/v1/evaluation-tasks/import                   editor        -               task.import
POST   /api/v1/evaluation-tasks/answers                  editor        -               task.import
GET    /api/v1/evaluation-tasks/:task_id                 viewer        task
PATCH  /api/v1/evaluation-tasks/:task_id                 editor        task            task.change
DELETE /api/v1/evaluation-tasks/:task_id                 editor        task            task.delete
GET    /api/v1/evaluation-tasks/:task_id/archive         viewer        task            task.archive
GET    /api/v1/evaluation-tasks/:task_id/assets          viewer        task
GET    /api/v1/evaluation-tasks/:task_id/assets/:asset_id            viewer  task
GET    /api/v1/evaluation-tasks/:task_id/assets/:asset_id/thumbnail  viewer  task
POST   /api/v1/evaluation-tasks/:task_id/clone           editor        task            task.clone
POST   /api/v1/evaluation-tasks/:task_id/evaluate        editor        task            task.evaluate
POST   /api/v1/evaluation-tasks/:task_id/meanings        reviewer      task            task.group
GET    /api/v1/evaluation-tasks/:task_id/carriable-reviews           viewer    task
GET    /api/v1/evaluation-tasks/:task_id/carried-reviews             viewer    task
POST   /api/v1/evaluation-tasks/:task_id/carried-reviews             reviewer  task  review.carry
DELETE /api/v1/evaluation-tasks/:task_id/carried-reviews/:batch_id   reviewer  task  review.withdraw
POST   /api/v1/evaluation-tasks/:task_id/confirm         editor        task            task.confirm
GET    /api/v1/evaluation-tasks/:task_id/export          viewer        task            task.export
POST   /api/v1/evaluation-tasks/:task_id/extend          editor        task            task.extend
GET    /api/v1/evaluation-tasks/:task_id/items           viewer        task
GET    /api/v1/evaluation-tasks/:task_id/tools           viewer        task
POST   /api/v1/evaluation-tasks/:task_id/items           editor        task            task.append
PUT    /api/v1/evaluation-tasks/:task_id/items/:question_id/meaning  reviewer  task  review.group
DELETE /api/v1/evaluation-tasks/:task_id/items/:question_id/meaning  reviewer  task  review.withdraw
PUT    /api/v1/evaluation-tasks/:task_id/items/:question_id/pair     reviewer  task  review.compare
DELETE /api/v1/evaluation-tasks/:task_id/items/:question_id/pair     reviewer  task  review.withdraw
PUT    /api/v1/evaluation-tasks/:task_id/items/:question_id/review   reviewer  task  review.put
DELETE /api/v1/evaluation-tasks/:task_id/items/:question_id/review   reviewer  task  review.withdraw
GET    /api/v1/evaluation-tasks/:task_id/launches        viewer        task
GET    /api/v1/evaluation-tasks/:task_id/launches/:launch_id         viewer  task
GET    /api/v1/evaluation-tasks/:task_id/launches/:launch_id/runs    viewer  task
GET    /api/v1/evaluation-tasks/:task_id/pairs           viewer        task
POST   /api/v1/evaluation-tasks/:task_id/pairs           reviewer      task            review.sample
GET    /api/v1/evaluation-tasks/:task_id/progress        viewer        task
GET    /api/v1/evaluation-tasks/:task_id/results         viewer        task
POST   /api/v1/evaluation-tasks/:task_id/resume          editor        task            task.resume
POST   /api/v1/evaluation-tasks/:task_id/retry           editor        task            task.retry
GET    /api/v1/evaluation-tasks/:task_id/review-assignments          viewer    task
PUT    /api/v1/evaluation-tasks/:task_id/review-assignments          reviewer  task  review.assign
PUT    /api/v1/evaluation-tasks/:task_id/review-settings             reviewer  task  review.set
GET    /api/v1/evaluation-tasks/:task_id/reviews         viewer        task
POST   /api/v1/evaluation-tasks/:task_id/reviews/import  reviewer      task            review.put
POST   /api/v1/evaluation-tasks/:task_id/run             editor        task            task.run
GET    /api/v1/evaluation-tasks/:task_id/runs/:run_id    viewer        task
GET    /api/v1/evaluation-tasks/:task_id/runs/:run_id/events         viewer    task
GET    /api/v1/evaluation-tasks/:task_id/runs/:run_id/input          viewer    task
GET    /api/v1/evaluation-tasks/:task_id/samples         viewer        task
POST   /api/v1/evaluation-tasks/:task_id/samples         reviewer      task  review.sample
POST   /api/v1/evaluation-tasks/:task_id/sign-off        reviewer      task            task.sign-off
GET    /api/v1/evaluation-tasks/:task_id/sign-offs       viewer        task
GET    /api/v1/evaluation-tasks/:task_id/statistics      viewer        task
POST   /api/v1/evaluation-tasks/:task_id/stop            editor        task            task.stop
GET    /api/v1/evaluation-tasks/:task_id/units/:unit_id/events       viewer    task

GET    /library                                          viewer        -
POST   /library/agents/detect                            editor        -               agent.test
POST   /library/agents/test                              editor        -               agent.test
POST   /library/evaluators/test                          editor        -               evaluator.test
POST   /library/models/test                              editor        -               model.test
POST   /library/prompts/preview                          editor        -
POST   /library/schedules/times                          editor        -
POST   /library/channels/:id/test                        admin         channels        channel.test
POST   /library/channels/:id/deliveries/:delivery        admin         channels        channel.resend
POST   /library/datasets/:id/versions                    editor        datasets        dataset.change
GET    /library/datasets/:id/versions/:number            viewer        datasets
GET    /library/datasets/:id/versions/:number/file       viewer        datasets        dataset.download
GET    /library/prompts/:id/versions/:number             viewer        prompts

POST   /api/v1/agents/detect                             editor        -               agent.test
POST   /api/v1/agents/:id/test                           editor        agents          agent.test
GET    /api/v1/channels/:id/deliveries                   viewer        channels
POST   /api/v1/channels/:id/deliveries/:delivery_id/send admin         channels        channel.resend
POST   /api/v1/channels/:id/test                         admin         channels        channel.test
POST   /api/v1/datasets/:id/answers                      editor        datasets        dataset.change
GET    /api/v1/datasets/:id/versions                     viewer        datasets
POST   /api/v1/datasets/:id/versions                     editor        datasets        dataset.change
GET    /api/v1/datasets/:id/versions/:number             viewer        datasets
GET    /api/v1/datasets/:id/versions/:number/file        viewer        datasets        dataset.download
GET    /api/v1/datasets/:id/versions/:number/rows        viewer        datasets
POST   /api/v1/evaluators/test                           editor        -               evaluator.test
GET    /api/v1/evaluators/:id/people                     viewer        evaluators
POST   /api/v1/evaluators/:id/tune                       editor        evaluators      evaluator.test
GET    /api/v1/evaluators/:id/versions                   viewer        evaluators
GET    /api/v1/evaluators/:id/versions/:number           viewer        evaluators
POST   /api/v1/models/:id/test                           editor        models          model.test
POST   /api/v1/prompts/preview                           editor        -
GET    /api/v1/prompts/:id/versions                      viewer        prompts
POST   /api/v1/prompts/:id/versions                      editor        prompts         prompt.change
GET    /api/v1/prompts/:id/versions/:number              viewer        prompts
GET    /api/v1/schedules/:id/changes                     viewer        schedules
GET    /api/v1/schedules/:id/firings                     viewer        schedules
GET    /api/v1/schedules/:id/tasks                       viewer        schedules
` + library("providers", "provider", people.Editor) +
	library("models", "model", people.Editor) +
	library("agents", "agent", people.Editor) +
	library("prompts", "prompt", people.Editor) +
	library("datasets", "dataset", people.Editor) +
	library("evaluators", "evaluator", people.Editor) +
	library("channels", "channel", people.Admin) +
	library("schedules", "schedule", people.Editor))

// library returns the rules of the routes that all kinds of entries have; role is the role that may change entries.
func library(table, kind string, role people.Role) string {
	return strings.NewReplacer("TABLE", table, "KIND", kind, "ROLE", string(role)).Replace(`
GET    /library/TABLE               viewer  -
GET    /library/TABLE/new           ROLE    -
GET    /library/TABLE/:id           viewer  TABLE
POST   /library/TABLE               ROLE    -      KIND.create
POST   /library/TABLE/:id           ROLE    TABLE  KIND.change
POST   /library/TABLE/:id/remove    ROLE    TABLE  KIND.remove
POST   /library/TABLE/:id/restore   ROLE    TABLE  KIND.restore
GET    /api/v1/TABLE                viewer  -
GET    /api/v1/TABLE/:id            viewer  TABLE
POST   /api/v1/TABLE                ROLE    -      KIND.create
PATCH  /api/v1/TABLE/:id            ROLE    TABLE  KIND.change
DELETE /api/v1/TABLE/:id            ROLE    TABLE  KIND.remove
`)
}

// Actions returns the names of all actions that the audit log records for routes, sorted.
func Actions() (actions []string) {
	for _, rule := range rules {
		if rule.action != "" && !slices.Contains(actions, rule.action) {
			actions = append(actions, rule.action)
		}
	}
	slices.Sort(actions)
	return actions
}

func parse(table string) map[string]Rule {
	all := map[string]Rule{}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) < 4 {
			panic("a rule needs a method, a path, a right and an object: " + line)
		}
		rule := Rule{right: right(fields[2]), object: strings.Trim(fields[3], "-")}
		if len(fields) > 4 {
			rule.action = fields[4]
		}
		name := fields[0] + " " + fields[1]
		if _, isTwice := all[name]; isTwice {
			panic("two rules for " + name)
		}
		isRight := slices.Contains([]right{public, account, session, leaving, passwordDuty, passkeyDuty, installation},
			rule.right) || people.Role(rule.right).IsKnown()
		if !isRight {
			panic(fmt.Sprintf("%s has the unknown right %q", name, rule.right))
		}
		all[name] = rule
	}
	return all
}
