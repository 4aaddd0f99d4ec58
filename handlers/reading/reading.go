// Package reading collects the data that reports show about questions (their answers, how similar these are, and
// people's verdicts), for pages and for files in every format.
package reading

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
	"wending/jobs/blob"
	"wending/views/marks"
	"wending/views/results"
	"wending/views/summary"
	"wending/views/ui"
)

// Reader reads the questions, answers and reviews of tasks.
type Reader struct {
	store   *db.Store
	report  report.Report
	assets  engine.Assets
	files   blob.Store
	layouts *marks.Layouts
}

// layoutBytes is the maximum size, in bytes, of the cache for layouts of answers.
const layoutBytes = 64 << 20

// New returns a reader; files contains the files that agents produced.
func New(store *db.Store, files blob.Store) Reader {
	return Reader{store, report.New(store), engine.NewAssets(store), files, marks.NewLayouts(layoutBytes)}
}

// Reviews are people's verdicts on a task's questions and answers.
type Reviews struct {
	// OfQuestions are the reviews of questions as a whole, OfAnswers are the reviews of single answers, and Withdrawn are
	// the withdrawn reviews of both kinds. All are keyed by question id.
	OfQuestions, OfAnswers, Withdrawn map[string][]review.Review
}

// Reviews returns people's verdicts on a task.
func (r Reader) Reviews(ctx context.Context, taskID uuid.UUID) (found Reviews, err error) {
	found = Reviews{map[string][]review.Review{}, map[string][]review.Review{}, map[string][]review.Review{}}
	all, err := review.New(r.store).List(ctx, taskID, "", "")
	if err != nil {
		return found, err
	}
	for _, one := range all {
		of := found.OfQuestions
		if one.RunIndex != nil {
			of = found.OfAnswers
		}
		of[one.QuestionID] = append(of[one.QuestionID], one)
	}
	withdrawn, err := review.New(r.store).Withdrawn(ctx, taskID)
	for _, one := range withdrawn {
		found.Withdrawn[one.QuestionID] = append(found.Withdrawn[one.QuestionID], one)
	}
	return found, err
}

// ItemsOf returns the items with the given ids, keyed by id.
func (r Reader) ItemsOf(ctx context.Context, ids []int64) (map[int64]db.Item, error) {
	items, err := r.report.ItemsByID(ctx, ids)
	byID := make(map[int64]db.Item, len(items))
	for _, item := range items {
		byID[item.ID] = item
	}
	return byID, err
}

// Cards returns the questions with the given ids, with everything that a page shows about each, in the order of ids.
// limit is the maximum number of characters of each answer.
func (r Reader) Cards(ctx context.Context, task db.Task, ids []int64, reviews Reviews,
	limit int) ([]results.Card, error) {
	items, err := r.report.ItemsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	// Retries are read before the runs. If a retry ends in between, its new runs are then shown; the old runs are never
	// shown without the retry.
	retrying := map[int64]report.Retry{}
	if task.HasResults && task.Status.IsActive() {
		if retrying, err = r.report.Retrying(ctx, task.ID, ids); err != nil {
			return nil, err
		}
	}
	runs, err := r.report.CurrentRuns(ctx, ids, limit)
	if err != nil {
		return nil, err
	}
	runsOf := map[int64][]db.Run{}
	for _, run := range runs {
		runsOf[run.ItemID] = append(runsOf[run.ItemID], run)
	}
	questions, err := r.report.Questions(ctx, task.ID, ids)
	if err != nil {
		return nil, err
	}
	produced, err := r.assets.OfRuns(ctx, task.ID, ids)
	if err != nil {
		return nil, err
	}
	commented := map[int64][]review.Comment{}
	if task.OpenComments > 0 {
		if commented, err = review.New(r.store).OpenComments(ctx, task.ID, ids); err != nil {
			return nil, err
		}
	}
	planned, err := r.store.PlannedRuns(ctx, task)
	if err != nil {
		return nil, err
	}
	byID, allowance := make(map[int64]results.Card, len(items)), &marks.Allowance{}
	for _, item := range items {
		card := newCard(item, task.WithMissing(item.ID, runsOf[item.ID], planned), questions[item.ID].Number)
		if question := questions[item.ID]; question.Of(runsOf[item.ID]) {
			card.Question = question
			if card.Differences, err = question.ParseDifferences(); err != nil {
				return nil, err
			}
		}
		card.Reviews, card.AnswerReviews = reviews.OfQuestions[item.QuestionID], reviews.OfAnswers[item.QuestionID]
		card.Comments = commented[item.ID]
		card.Withdrawn, card.Assets = reviews.Withdrawn[item.QuestionID], produced
		card.Layouts, card.Allowance = r.layouts, allowance
		// How alike the answers are is shown only once the new runs have been assessed.
		if retry, is := retrying[item.ID]; is &&
			(retry.Total == 0 || retry.Done < retry.Total || len(card.Question.Variants) == 0) {
			card.Retry = &retry
		}
		byID[item.ID] = card
	}
	return inOrder(byID, ids), nil
}

// inOrder returns the cards in the order of ids, and marks the cards whose question is the next turn of the
// conversation of the card before.
func inOrder(byID map[int64]results.Card, ids []int64) []results.Card {
	cards := make([]results.Card, 0, len(ids))
	for _, id := range ids {
		if card, has := byID[id]; has { // otherwise it was deleted in the meantime
			if turn := card.Item.Turn; turn != nil && len(cards) > 0 {
				before := cards[len(cards)-1].Item
				card.Follows = before.Turn != nil && *before.Series == *card.Item.Series && *before.Turn == *turn-1
			}
			cards = append(cards, card)
		}
	}
	return cards
}

// newCard returns a card with a question and its runs, and counts the failed and missing ones.
func newCard(item db.Item, runs []db.Run, number int) results.Card {
	card := results.Card{Item: item, Runs: runs, Number: number}
	keys := make([][]byte, len(runs))
	for n, run := range runs {
		keys[n] = run.AnswerKey
		switch run.Status {
		case db.RunSucceeded:
		case db.RunStopped:
			card.Stopped++
		default:
			card.Failures++
		}
	}
	card.Letters, card.Groups = measure.Letters(keys)
	return card
}

// cardsAtOnce is how many questions of a document are in memory at once. documentText is the maximum number of
// characters of all answers in a document, and answerText is the maximum for one answer.
const (
	cardsAtOnce  = 10
	documentText = 16 << 20
	answerText   = 20_000
)

// Contents says what a document contains.
type Contents struct {
	// Link is the path of a share link through which the document is read; empty if there is none.
	Link string
	// MayComment adds links to the comments of the share link's readers: one before all questions, and one after each
	// question.
	MayComment bool
	// OnlyAnswers leaves out the conclusions, the statistics and people's verdicts.
	OnlyAnswers bool
	// OnlyDiffering leaves out a question if all its runs have answers, the answers have the same content, and they agree
	// with the standard answer. The remaining questions are in order of risk.
	OnlyDiffering bool
	// Only holds the ids of the questions to include; nil means all.
	Only map[int64]bool
}

// renderLink writes the link to the comments on a question or, if number is 0, on the whole task. It writes nothing
// unless readers may comment.
func (c Contents) renderLink(ctx context.Context, w io.Writer, number int) error {
	if !c.MayComment {
		return nil
	}
	return ui.CommentLink(c.Link, number).Render(ctx, w)
}

// Document prepares a task's report as one HTML document. write writes it, question by question. All data come from one
// snapshot of the database.
func (r Reader) Document(ctx context.Context, task db.Task,
	contents Contents) (write func(context.Context, io.Writer) error, err error) {
	snapshot, release, err := r.store.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	task, err = snapshot.Task(ctx, task.Scope(), task.ID)
	if err != nil {
		release()
		return nil, err
	}
	rest, err := New(snapshot, r.files).document(ctx, task, contents)
	if err != nil {
		release()
		return nil, err
	}
	return func(ctx context.Context, w io.Writer) error {
		defer release()
		return rest(ctx, w)
	}, nil
}

// contained returns the questions that a document contains, and stores in d how many are left out because they do not
// differ, and how many were chosen.
func contained(d *results.Document, contents Contents) []report.Summary {
	found := d.All
	if contents.OnlyDiffering {
		found = differingOnly(d.All)
		d.LeftOut = len(d.All) - len(found)
	}
	if contents.Only != nil {
		found = slices.DeleteFunc(slices.Clone(found), func(item report.Summary) bool { return !contents.Only[item.ID] })
		d.Chosen = len(found)
	}
	return found
}

// judged adds the conclusions, the statistics and the sign-offs to a document, and returns people's verdicts. It does
// nothing for a document with only the answers.
func (r Reader) judged(ctx context.Context, d *results.Document, contents Contents) (reviews Reviews, err error) {
	if contents.OnlyAnswers {
		return reviews, nil
	}
	if reviews, err = r.Reviews(ctx, d.Task.ID); err != nil {
		return reviews, err
	}
	d.Reviews = reviews.OfQuestions
	numbers, err := r.Summary(ctx, d.Task, Grouping{}, false)
	if err != nil {
		return reviews, err
	}
	numbers.IsDocument = true
	d.Decision, d.Summary = summary.Decided(numbers), summary.Numbers(numbers)
	d.SignOffs, err = review.New(r.store).SignOffs(ctx, d.Task.ID)
	return reviews, err
}

func (r Reader) document(ctx context.Context, task db.Task,
	contents Contents) (write func(context.Context, io.Writer) error, err error) {
	d := results.Document{Report: results.Report{Task: task, View: results.Merged, IsDocument: true,
		Link: contents.Link}, Made: time.Now(), Decision: summary.Nothing(), Summary: summary.Nothing()}
	if d.All, err = r.report.Summaries(ctx, task, 0, "", false); err != nil {
		return nil, err
	}
	questions := contained(&d, contents)
	if d.Statistics, err = r.store.TaskStatistics(ctx, task); err != nil {
		return nil, err
	}
	reviews, err := r.judged(ctx, &d, contents)
	if err != nil {
		return nil, err
	}
	enclosed := enclosure{files: r.files, room: documentPictures}
	if contents.Link != "" {
		enclosed.room = 0 // the page loads images from below the link's address
	}
	return func(ctx context.Context, w io.Writer) error {
		if err := results.DocumentHead(d).Render(ctx, w); err != nil {
			return err
		}
		if err := contents.renderLink(ctx, w, 0); err != nil {
			return err
		}
		for from := 0; from < len(questions); from += cardsAtOnce {
			var ids []int64
			for _, item := range questions[from:min(from+cardsAtOnce, len(questions))] {
				ids = append(ids, item.ID)
			}
			cards, err := r.Cards(ctx, task, ids, reviews, min(answerText, documentText/max(1, task.TotalRuns())))
			if err != nil {
				return err
			}
			for _, card := range cards {
				if card.Pictures, err = enclosed.picturesOf(ctx, card); err != nil {
					return err
				}
				if err := results.DocumentCard(d, card).Render(ctx, w); err != nil {
					return err
				}
				if err := contents.renderLink(ctx, w, card.Number); err != nil {
					return err
				}
			}
		}
		return results.DocumentFoot().Render(ctx, w)
	}, nil
}
