package web

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/labstack/echo/v4"

	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/tasks"
	"wending/views/judging"
	"wending/views/paths"
	"wending/views/ui"
)

// regrouped returns the answers of a variant to a question, for a person to group them. The question is in the path,
// and the variant in the query.
func (p *Pages) regrouped(c echo.Context) (g judging.Regrouping, answers tasks.Answers, err error) {
	task, item, _, err := p.question(c)
	if err != nil {
		return g, answers, err
	}
	if task.Grouper() == nil {
		return g, answers, tasks.ErrNotGrouped
	}
	variant, err := pages.Variant(c, task)
	if err != nil {
		return g, answers, err
	}
	variant = max(1, variant)
	r, card, err := p.readCard(c, task, item.ID)
	if err != nil {
		return g, answers, err
	}
	if answers, err = p.Tasks.ReadAnswers(c.Request().Context(), item.ID, variant); err != nil {
		return g, answers, err
	}
	return judging.NewRegrouping(r, card, variant, answers.Runs, answers.Contents), answers, nil
}

// showMeaning shows the answers of a variant to a question as they are grouped by meaning, for a person to correct the
// groups.
func (p *Pages) showMeaning(c echo.Context) error {
	g, _, err := p.regrouped(c)
	if err != nil {
		return err
	}
	return p.renderMeaning(c, g, http.StatusOK)
}

func (p *Pages) renderMeaning(c echo.Context, g judging.Regrouping, status int) error {
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("meaning.correct.title", "Number", g.Number),
		ui.SectionTasks)
	frame.Styles, frame.Scripts = []string{"report.css", "judging.css"}, []string{"review.js", "meaning.js"}
	return pages.Render(c, status, judging.MeaningPage(frame, g))
}

// regroup stores a person's groups, or withdraws the current ones. If that is refused, the page shows the reason and
// the current groups.
func (p *Pages) regroup(c echo.Context) error {
	ctx := c.Request().Context()
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	g, answers, err := p.regrouped(c)
	if err != nil {
		return err
	}
	version, err := strconv.Atoi(submitted.Values["version"])
	if err != nil {
		version = -1 // no page has this version, so storing is refused as a conflict
	}
	done := "regrouped"
	name, err := form.ReviewerName(ctx, submitted.Values["reviewer"])
	switch {
	case err != nil:
	case submitted.Value("withdraw") == "true":
		done = "withdrawn"
		err = p.reviews.Ungroup(ctx, g.Task.ID, g.Item.ID, g.Variant, version, name)
	default:
		_, err = p.Tasks.Regroup(ctx, g.Task, tasks.Regrouping{
			ItemID: g.Item.ID, Variant: g.Variant, Groups: chosenGroups(submitted, answers), Reviewer: name, Version: version,
		})
	}
	if err == nil {
		return pages.Done(c, paths.Question(g.Task.ID, g.Number), done)
	}
	fault := request.FaultOf(err)
	if status := fault.Status(); status != http.StatusUnprocessableEntity && status != http.StatusConflict {
		return err
	}
	g.Problem, g.Reviewer = fault.Message(pages.Locale(c)), submitted.Values["reviewer"]
	return p.renderMeaning(c, g, fault.Status())
}

// chosenGroups returns the groups that were chosen in a form, each as a list of the run_index of its runs. The choice
// for an answer applies to all runs with the same answer. An answer without a choice is in no group, which Regroup
// refuses.
func chosenGroups(submitted *form.Upload, answers tasks.Answers) (groups [][]int) {
	var names []string
	chosen := map[int]string{}
	for n, run := range answers.Runs {
		choice, has := chosen[answers.Contents[n]]
		if !has {
			choice = submitted.Values["group-"+strconv.Itoa(run)]
			chosen[answers.Contents[n]] = choice
		}
		if choice == "" {
			continue
		}
		at := slices.Index(names, choice)
		if at < 0 {
			at, names, groups = len(names), append(names, choice), append(groups, nil)
		}
		groups[at] = append(groups[at], run)
	}
	return groups
}
