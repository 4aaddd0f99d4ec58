package review

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/measure"
	"wending/db/pg"
)

// Preference is a verdict on a pair of answers.
type Preference string

// The preferences: the answer of the first or the second variant is better, or both are equally good.
const (
	PrefersA Preference = "A"
	PrefersB Preference = "B"
	Same     Preference = "SAME"
)

// Preferences lists all preferences.
var Preferences = []Preference{PrefersA, PrefersB, Same}

// AsShown converts a preference between the variants into one between the answers in the order in which they are
// shown, where A is the first one. It also converts in the opposite direction.
func (p Preference) AsShown(isSwapped bool) Preference {
	switch {
	case isSwapped && p == PrefersA:
		return PrefersB
	case isSwapped && p == PrefersB:
		return PrefersA
	}
	return p
}

// Matchup names two variants of a task; A has the lower number.
type Matchup struct{ A, B int }

// Pair holds two variants' answers to a question, which people compare without knowing which variant gave which answer.
type Pair struct {
	ItemID     int64  `db:"item_id"`
	QuestionID string `db:"question_id"`
	// Number is the question's number, from 1, in the order in which pages list the questions.
	Number  int    `db:"number"`
	Cluster string `db:"cluster"`
	// RunA and RunB are the ids of the current runs, and IndexA and IndexB are their numbers among the runs of a variant.
	RunA   int64 `db:"run_a"`
	RunB   int64 `db:"run_b"`
	IndexA int   `db:"index_a"`
	IndexB int   `db:"index_b"`
	// IsSwapped reports that the answer of the second variant is shown first.
	IsSwapped bool `db:"is_swapped"`
	// IsEqual reports that the answers are equal, so that nobody need compare them.
	IsEqual bool `db:"is_equal"`
	// Verdicts are the current verdicts on the present answers, ordered by reviewer; Outdated are those on answers that
	// have since been replaced, and Withdrawn those that were withdrawn.
	Verdicts, Outdated, Withdrawn []PairVerdict
}

// PairVerdict is a person's verdict on a pair.
type PairVerdict struct {
	ItemID   int64      `db:"item_id"`
	Reviewer string     `db:"reviewer"`
	Verdict  Preference `db:"verdict"`
	// Version counts the changes, from 1.
	Version     int       `db:"version"`
	CreatedAt   time.Time `db:"created_at"`
	IsOutdated  bool      `db:"is_outdated"`
	IsWithdrawn bool      `db:"is_withdrawn"`
}

// By returns a reviewer's verdict on the present answers; nil if there is none.
func (p Pair) By(reviewer string) *PairVerdict {
	return verdictBy(p.Verdicts, reviewer)
}

// VersionBy returns the version of a reviewer's verdict, even if it was withdrawn or its answers were replaced; 0 if
// there is none.
func (p Pair) VersionBy(reviewer string) int {
	if one := verdictBy(slices.Concat(p.Verdicts, p.Outdated, p.Withdrawn), reviewer); one != nil {
		return one.Version
	}
	return 0
}

func verdictBy(verdicts []PairVerdict, reviewer string) *PairVerdict {
	for n := range verdicts {
		if reviewer != "" && verdicts[n].Reviewer == reviewer {
			return &verdicts[n]
		}
	}
	return nil
}

// balance returns how many more verdicts prefer the first variant than the second.
func (p Pair) balance() (balance int) {
	for _, one := range p.Verdicts {
		switch one.Verdict {
		case PrefersA:
			balance++
		case PrefersB:
			balance--
		}
	}
	return balance
}

// Pairs are the pairs that were drawn for two variants and still have both answers, in the order in which pages list
// their questions.
type Pairs []Pair

// ToJudge returns the pairs whose answers differ.
func (p Pairs) ToJudge() Pairs {
	return slices.DeleteFunc(slices.Clone(p), func(one Pair) bool { return one.IsEqual })
}

// JudgedBy counts the pairs that a reviewer has judged.
func (p Pairs) JudgedBy(reviewer string) (judged int) {
	for _, one := range p {
		if one.By(reviewer) != nil {
			judged++
		}
	}
	return judged
}

// Reviewers returns the names of those who gave verdicts, in alphabetical order.
func (p Pairs) Reviewers() (names []string) {
	for _, one := range p {
		for _, verdict := range one.Verdicts {
			names = append(names, verdict.Reviewer)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsFinishedBy reports whether a reviewer has compared all pairs, and may therefore learn which variant gave which
// answer.
func (p Pairs) IsFinishedBy(reviewer string) bool {
	all := p.ToJudge()
	return len(all) > 0 && all.JudgedBy(reviewer) == len(all)
}

// IsRevealedTo reports whether a reviewer may see which variant people prefer. Reviewers who have begun may see it once
// they have compared all pairs, others once each pair has a verdict, so that nobody compares answers with the result in
// mind.
func (p Pairs) IsRevealedTo(reviewer string) bool {
	all := p.ToJudge()
	if judged := all.JudgedBy(reviewer); judged > 0 {
		return judged == len(all)
	}
	return len(p) > 0 && !slices.ContainsFunc(all, func(one Pair) bool { return len(one.Verdicts) == 0 })
}

// Preferred counts which of two variants people prefer, question by question. A variant is preferred on a question if
// more of its verdicts prefer this variant than the other; if neither has more, the question is a tie.
type Preferred struct {
	A        int              `json:"a" doc:"Questions on which people prefer the first variant" example:"31"`
	B        int              `json:"b" doc:"Questions on which people prefer the second variant" example:"14"`
	Ties     int              `json:"ties" doc:"Questions on which neither is preferred" example:"15"`
	Verdicts int              `json:"verdicts" doc:"Number of verdicts" example:"60"`
	Clusters int              `json:"clusters" doc:"Independent groups among the questions that are no ties" example:"45"`
	Share    *float64         `json:"share" doc:"Share of a in a and b; null if all are ties" example:"0.689"`
	Interval measure.Interval `json:"interval" doc:"95 % interval of share (Wilson); null if unknown" example:"[0.543,0.805]"`
	P        *float64         `json:"p" doc:"Two-sided sign test over the clusters; null if all are ties" example:"0.016"`
}

// Preferred sums up the verdicts; it leaves out pairs without any.
func (p Pairs) Preferred() (of Preferred) {
	var decided measure.Sample
	for _, one := range p.ToJudge() {
		balance := one.balance()
		of.Verdicts += len(one.Verdicts)
		switch {
		case balance > 0:
			of.A++
			decided.Add(1, one.Cluster)
		case balance < 0:
			of.B++
			decided.Add(0, one.Cluster)
		case len(one.Verdicts) > 0:
			of.Ties++
		}
	}
	if of.Share = decided.Mean(); of.Share != nil {
		test := decided.SignTest()
		of.Clusters, of.Interval, of.P = decided.Clusters(), decided.Wilson(), &test
	}
	return of
}

// Preferring returns the pairs whose verdicts mostly prefer the first variant (direction 1), mostly prefer the second
// (-1), or prefer both equally often (0). Pairs without verdicts are left out.
func (p Pairs) Preferring(direction int) (some Pairs) {
	for _, one := range p {
		if len(one.Verdicts) > 0 && cmp.Compare(one.balance(), 0) == direction {
			some = append(some, one)
		}
	}
	return some
}

// presentRuns joins the current runs a and b of the pairs p.
const presentRuns = `
	JOIN evaluation_runs a ON a.item_id = p.item_id AND a.variant = p.variant_a AND a.run_index = p.run_a AND a.is_current
		AND a.status = 'SUCCEEDED'
	JOIN evaluation_runs b ON b.item_id = p.item_id AND b.variant = p.variant_b AND b.run_index = p.run_b AND b.is_current
		AND b.status = 'SUCCEEDED'`

// DrawPairs draws one answer of each of two variants, and the order in which they are shown, for every question of a
// task that has no such pair yet, or whose pair has lost an answer.
func (r Reviews) DrawPairs(ctx context.Context, taskID uuid.UUID, of Matchup) error {
	const draw = `
		INSERT INTO blind_pairs AS p (item_id, variant_a, variant_b, run_a, run_b, is_swapped)
		SELECT i.id, $2, $3, a.run_index, b.run_index, random() < 0.5
		FROM evaluation_items i
		JOIN evaluation_tasks t ON t.id = i.task_id
		CROSS JOIN LATERAL (
			SELECT run_index
			FROM evaluation_runs
			WHERE item_id = i.id AND variant = $2 AND is_current AND status = 'SUCCEEDED' AND run_index <= t.runs_per_item
			ORDER BY random()
			LIMIT 1) a
		CROSS JOIN LATERAL (
			SELECT run_index
			FROM evaluation_runs
			WHERE item_id = i.id AND variant = $3 AND is_current AND status = 'SUCCEEDED' AND run_index <= t.runs_per_item
			ORDER BY random()
			LIMIT 1) b
		WHERE i.task_id = $1
		ON CONFLICT (item_id, variant_a, variant_b) DO UPDATE
		SET run_a = excluded.run_a, run_b = excluded.run_b, is_swapped = excluded.is_swapped
		WHERE (
			SELECT count(*)
			FROM evaluation_runs o
			WHERE o.item_id = p.item_id AND o.is_current AND o.status = 'SUCCEEDED'
			AND (o.variant, o.run_index) IN ((p.variant_a, p.run_a), (p.variant_b, p.run_b))) < 2`
	_, err := r.db.ExecContext(ctx, draw, taskID, of.A, of.B)
	return pg.Classify("draw pairs of answers", err)
}

// Pairs returns the drawn pairs of two variants that still have both answers.
func (r Reviews) Pairs(ctx context.Context, taskID uuid.UUID, of Matchup) (pairs Pairs, err error) {
	const (
		list = `
			SELECT p.item_id, i.question_id, i.number, i.cluster, a.id AS run_a, b.id AS run_b, p.run_a AS index_a,
				p.run_b AS index_b, p.is_swapped, a.answer_key IS NOT DISTINCT FROM b.answer_key AS is_equal
			FROM (
				SELECT i.id, i.question_id, row_number() OVER (ORDER BY i.sort_key) AS number, ` + db.ClusterOf + ` AS cluster
				FROM evaluation_items i
				JOIN evaluation_tasks t ON t.id = i.task_id
				WHERE i.task_id = $1
			) i
			JOIN blind_pairs p ON p.item_id = i.id AND p.variant_a = $2 AND p.variant_b = $3` + presentRuns + `
			ORDER BY i.number`
		read = `
			SELECT v.item_id, v.reviewer, v.verdict, v.version, v.created_at, v.is_withdrawn,
				(v.judged_a, v.judged_b) <> (a.id, b.id) AS is_outdated
			FROM evaluation_items i
			JOIN blind_pairs p ON p.item_id = i.id AND p.variant_a = $2 AND p.variant_b = $3` + presentRuns + `
			JOIN pair_verdicts v ON v.item_id = p.item_id AND v.variant_a = $2 AND v.variant_b = $3 AND v.is_current
			WHERE i.task_id = $1
			ORDER BY v.reviewer`
	)
	if err := r.db.SelectContext(ctx, &pairs, list, taskID, of.A, of.B); err != nil || len(pairs) == 0 {
		return nil, pg.Classify("list the pairs of answers", err)
	}
	places := make(map[int64]int, len(pairs))
	for n, one := range pairs {
		places[one.ItemID] = n
	}
	err = pg.EachRow(ctx, r.db, "read the verdicts on pairs", read, []any{taskID, of.A, of.B}, func(v PairVerdict) error {
		place, has := places[v.ItemID]
		switch {
		case !has: // the pair was drawn after the others were listed
		case v.IsWithdrawn:
			pairs[place].Withdrawn = append(pairs[place].Withdrawn, v)
		case v.IsOutdated:
			pairs[place].Outdated = append(pairs[place].Outdated, v)
		default:
			pairs[place].Verdicts = append(pairs[place].Verdicts, v)
		}
		return nil
	})
	return pairs, err
}

// PairPlace names a reviewer's verdict on a pair of answers.
type PairPlace struct {
	Of                   Matchup
	QuestionID, Reviewer string
}

// Compare stores a person's verdict on a pair of answers to a question, and returns it as stored. version is the
// version that the reviewer has seen, 0 if there was none. Compare returns a ConflictError if version is not the latest
// version, and a db.NotFoundError if there is no such pair.
func (r Reviews) Compare(ctx context.Context, taskID uuid.UUID, place PairPlace, said Preference,
	version int) (stored PairVerdict, err error) {
	err = r.changePair(ctx, taskID, place, version, func(tx *sqlx.Tx, pair Pair, _ *PairVerdict) error {
		const insert = `
			INSERT INTO pair_verdicts (item_id, variant_a, variant_b, reviewer, verdict, version, judged_a, judged_b)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
			RETURNING item_id, reviewer, verdict, version, created_at`
		err := tx.GetContext(ctx, &stored, insert, pair.ItemID, place.Of.A, place.Of.B, place.Reviewer, said, version+1,
			pair.RunA, pair.RunB)
		return pg.Classify("store the verdict on a pair", err)
	})
	return stored, err
}

// WithdrawPair withdraws a person's verdict on a pair. The withdrawn version keeps its number: the next Compare must
// pass it as the version that the reviewer has seen.
func (r Reviews) WithdrawPair(ctx context.Context, taskID uuid.UUID, place PairPlace, version int) error {
	return r.changePair(ctx, taskID, place, version, func(tx *sqlx.Tx, pair Pair, current *PairVerdict) error {
		const insert = `
			INSERT INTO pair_verdicts (item_id, variant_a, variant_b, reviewer, verdict, version, judged_a, judged_b,
				is_withdrawn)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, true)`
		if current == nil || current.IsWithdrawn {
			return db.ErrNotFound
		}
		_, err := tx.ExecContext(ctx, insert, pair.ItemID, place.Of.A, place.Of.B, place.Reviewer, current.Verdict, version,
			pair.RunA, pair.RunB)
		return pg.Classify("withdraw the verdict on a pair", err)
	})
}

// changePair runs store, which stores the next version of a verdict on a pair. It returns a ConflictError if version is
// not the latest one. Changes are made one at a time.
func (r Reviews) changePair(ctx context.Context, taskID uuid.UUID, place PairPlace, version int,
	store func(tx *sqlx.Tx, pair Pair, current *PairVerdict) error) error {
	const (
		lock = `
			SELECT p.item_id, a.id AS run_a, b.id AS run_b
			FROM evaluation_items i
			JOIN blind_pairs p ON p.item_id = i.id AND p.variant_a = $3 AND p.variant_b = $4` + presentRuns + `
			WHERE i.task_id = $1 AND i.question_id = $2
			FOR NO KEY UPDATE OF p`
		replace = `
			UPDATE pair_verdicts
			SET is_current = false
			WHERE item_id = $1 AND variant_a = $2 AND variant_b = $3 AND reviewer = $4 AND is_current
			RETURNING verdict, version, is_withdrawn`
	)
	return r.db.InTx(ctx, "compare two answers", func(tx *sqlx.Tx) error {
		var pair Pair
		err := tx.GetContext(ctx, &pair, lock, taskID, place.QuestionID, place.Of.A, place.Of.B)
		if pg.IsNoRows(err) {
			return &db.NotFoundError{Kind: db.KindQuestion}
		}
		if err != nil {
			return pg.Classify("lock the pair of answers", err)
		}
		var found []PairVerdict
		err = tx.SelectContext(ctx, &found, replace, pair.ItemID, place.Of.A, place.Of.B, place.Reviewer)
		if err != nil {
			return pg.Classify("store the history of verdicts on a pair", err)
		}
		var current *PairVerdict
		latest := 0
		if len(found) > 0 {
			current, latest = &found[0], found[0].Version
		}
		if version != latest {
			return &ConflictError{} // which also rolls the update back
		}
		return store(tx, pair, current)
	})
}

// Standing describes the progress of the comparison of two variants, and its result.
type Standing struct {
	A         int       `json:"a" doc:"Number of the first variant" example:"1"`
	B         int       `json:"b" doc:"Number of the second variant" example:"2"`
	Open      int       `json:"open" doc:"Pairs without a verdict" example:"12"`
	Done      int       `json:"done" doc:"Pairs with a verdict by at least one person" example:"48"`
	Equal     int       `json:"equal" doc:"Pairs of equal answers, which nobody need compare" example:"5"`
	Preferred Preferred `json:"preferred" doc:"Which variant people prefer"`
}

// Standing returns the standing of the comparison between the two variants that the pairs belong to.
func (p Pairs) Standing(of Matchup) Standing {
	all := p.ToJudge()
	standing := Standing{A: of.A, B: of.B, Equal: len(p) - len(all), Preferred: p.Preferred()}
	for _, one := range all {
		if len(one.Verdicts) > 0 {
			standing.Done++
		}
	}
	standing.Open = len(all) - standing.Done
	return standing
}

// Drawn holds the pairs that were drawn for two variants.
type Drawn struct {
	Of    Matchup
	Pairs Pairs
}

// Drawn returns all pairs of a task, grouped by the variants that they compare.
func (r Reviews) Drawn(ctx context.Context, taskID uuid.UUID) ([]Drawn, error) {
	const list = `
		SELECT DISTINCT p.variant_a AS a, p.variant_b AS b
		FROM evaluation_items i
		JOIN blind_pairs p ON p.item_id = i.id
		WHERE i.task_id = $1
		ORDER BY a, b`
	var matchups []Matchup
	if err := r.db.SelectContext(ctx, &matchups, list, taskID); err != nil {
		return nil, pg.Classify("list the variants whose answers are compared", err)
	}
	drawn := make([]Drawn, len(matchups))
	for n, of := range matchups {
		pairs, err := r.Pairs(ctx, taskID, of)
		if err != nil {
			return nil, err
		}
		drawn[n] = Drawn{of, pairs}
	}
	return drawn, nil
}

// Standings returns the standing of each comparison of two variants of a task for which pairs were drawn.
func (r Reviews) Standings(ctx context.Context, taskID uuid.UUID) ([]Standing, error) {
	drawn, err := r.Drawn(ctx, taskID)
	standings := make([]Standing, len(drawn))
	for n, one := range drawn {
		standings[n] = one.Pairs.Standing(one.Of)
	}
	return standings, err
}

// PairTexts are the answers of a pair in the order in which they are shown, and their lengths in characters.
type PairTexts struct {
	First        string `db:"first"`
	Second       string `db:"second"`
	FirstLength  int    `db:"first_length"`
	SecondLength int    `db:"second_length"`
}

// PairTexts returns the answers of a pair, with at most limit characters of each.
func (r Reviews) PairTexts(ctx context.Context, pair Pair, limit int) (texts PairTexts, err error) {
	const read = `
		SELECT left(a.response_body, $3) AS first, left(b.response_body, $3) AS second,
			char_length(a.response_body) AS first_length, char_length(b.response_body) AS second_length
		FROM evaluation_runs a, evaluation_runs b
		WHERE a.id = $1 AND b.id = $2`
	first, second := pair.RunA, pair.RunB
	if pair.IsSwapped {
		first, second = second, first
	}
	err = r.db.GetContext(ctx, &texts, read, first, second, limit)
	return texts, pg.Classify("read the answers of a pair", err)
}
