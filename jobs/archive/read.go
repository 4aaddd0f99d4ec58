package archive

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/upkeep"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/answers"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// Limits on values that forms do not limit. Texts are measured in characters.
const (
	maxInt         = math.MaxInt32
	maxTokens      = 1_000_000_000
	maxAttempts    = 10_000
	maxVersion     = 1_000_000
	maxVariantName = 400
	maxRate        = 32
	maxCode        = 64
	maxMessage     = 1 << 20
	maxSaid        = 1 << 20
	maxPoll        = 64 << 10
	maxRatings     = 16 << 10
	maxVotes       = 100
	// maxAnswer leaves room for the note that an answer was cut.
	maxAnswer = protocol.MaxText + 1000
)

// Read stores the task of an archive in a project, under a new id, which it returns. The task gets its results but no
// secrets, and no channel is notified. Before storing it, Read calls admit, which decides whether the project may
// store the given number of bytes. A fault in the archive is an *Error.
func (a *Archiver) Read(ctx context.Context, projectID uuid.UUID, by db.Actor, file io.ReaderAt, size int64,
	admit func(bytes int64) error) (uuid.UUID, error) {
	runtime.LockOSThread() // CPU time is counted for this thread
	defer runtime.UnlockOSThread()
	r, err := newReader(ctx, file, size)
	if err != nil {
		return uuid.Nil, err
	}
	var about manifest
	if _, err := r.object(manifestName, maxManifest, &about); err != nil {
		return uuid.Nil, err
	}
	isOld := about.Format == oldFormat && about.Parts == nil
	if about.Kind != kind || about.Format != format && !isOld {
		return uuid.Nil, &Error{File: manifestName, Problem: ProblemFormat,
			Args: map[string]any{"Format": fmt.Sprint(shorten(about.Kind), " ", about.Format)}}
	}
	if !isOld {
		if err := r.checkParts(about); err != nil {
			return uuid.Nil, err
		}
	}
	var h header
	content, err := r.object(taskName, maxHeader, &h)
	if err != nil {
		return uuid.Nil, err
	}
	n, err := h.task(ctx, by)
	if err != nil {
		return uuid.Nil, in(taskName, content, err)
	}
	n.Task.ProjectID = projectID
	if n.Items, n.corrections, err = r.items(h); err != nil {
		return uuid.Nil, err
	}
	if err := admit(int64(len(content)) + r.unpacked(isOld)); err != nil {
		return uuid.Nil, err
	}
	return n.Task.ID, a.store(ctx, r, h, n, isOld)
}

// store stores a task with the content of its archive's parts, completely or not at all.
func (a *Archiver) store(ctx context.Context, r *reader, h header, n newTask, isOld bool) error {
	runs, err := r.runs(n.NewTask)
	if err != nil {
		return err
	}
	defer runs.close()
	task := n.Task
	task.TotalItems, task.TotalVariants = len(n.Items), len(task.Variants)
	imported := upkeep.Imported{
		Task: n.NewTask, Status: h.Status, CreatedAt: h.CreatedAt.time(), StartedAt: h.StartedAt.time(),
		CompletedAt: h.CompletedAt.time(), Next: runs.next, Corrections: n.corrections,
		Assess: func(ctx context.Context, results report.Assessor, itemIDs []int64) error {
			return tasks.Assess(ctx, results, task, itemIDs)
		},
	}
	if isOld {
		return upkeep.NewArchives(a.Store).Import(ctx, imported)
	}
	if imported.Samples, err = r.samples(runs); err != nil {
		return err
	}
	if imported.Pairs, err = r.pairs(runs); err != nil {
		return err
	}
	calls, err := r.calls(runs)
	if err != nil {
		return err
	}
	defer calls.close()
	imported.NextPart, imported.NextTool = calls.nextPart, calls.nextTool
	err = a.storeFiles(ctx, r, runs, h, func(assets []assetOfLine) error {
		imported.Assets = func() ([]upkeep.ArchivedAsset, error) { return runs.filesOf(assets) }
		return upkeep.NewArchives(a.Store).Import(ctx, imported)
	})
	return err
}

// storeFiles stores the files of an archive, and calls the function store to store the task; if anything fails and the
// task was not stored, it removes the files.
func (a *Archiver) storeFiles(ctx context.Context, r *reader, runs *runs, h header,
	store func([]assetOfLine) error) error {
	id := runs.task.Task.ID
	assets, err := a.assets(ctx, r, runs)
	if err == nil {
		err = a.storeDataset(ctx, r, h, id, func() error { return store(assets) })
	}
	if err != nil {
		// If only the reply to the commit was lost, the task exists and needs its files.
		after := context.WithoutCancel(ctx)
		if _, lookup := a.Store.Task(after, db.AllProjects(), id); errors.Is(lookup, db.ErrNotFound) {
			err = errors.Join(err, a.keeper().Drop(after, id))
		}
	}
	return err
}

// storeDataset stores the uploaded file of questions, if the archive has it, and calls the function store to store the
// task. It stores both or neither.
func (a *Archiver) storeDataset(ctx context.Context, r *reader, h header, id uuid.UUID, store func() error) error {
	if !h.HasDataset {
		return store()
	}
	file, err := r.open(datasetName+h.Extension, dataset.MaxBytes)
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	return a.Tasks.ImportFile(ctx, id, h.Extension, bytes.NewReader(content), int64(len(content)), store)
}

// unpacked returns the declared unpacked size in bytes of the parts that are stored; if a declaration is false, reading
// fails later.
func (r *reader) unpacked(isOld bool) (size int64) {
	for name, all := range r.files {
		isStored := name == itemsName || name == runsName || !isOld && !strings.HasPrefix(name, reportName)
		if isStored && name != manifestName && name != taskName {
			size += int64(min(all[0].UncompressedSize64, maxRuns))
		}
	}
	return size
}

// newTask is a task to be stored, with people's groupings of its answers.
type newTask struct {
	db.NewTask
	corrections map[string][]meaning.Correction
}

// task checks a header and returns the task that it describes.
func (h header) task(ctx context.Context, by db.Actor) (newTask, error) {
	c := &checker{}
	c.accept("name", tasks.CheckName(h.Name))
	choose(c, "status", h.Status, db.TaskSucceeded, db.TaskStopped, db.TaskFailed)
	h.checkSettings(c)
	c.text("dataset_name", &h.DatasetName, tasks.MaxAddress)
	choose(c, "dataset_extension", h.Extension, dataset.Extensions...)
	c.text("question_column", &h.QuestionColumn, dataset.MaxColumnName)
	c.text("answer_column", &h.AnswerColumn, dataset.MaxColumnName)
	h.checkVariables(c)
	c.accept("cluster_by", tasks.CheckClusterBy(tasks.TextOf(h.ClusterBy), textsOf(h.VariableNames)))
	if h.AnswersFrom != nil {
		choose(c, "answers_from", *h.AnswersFrom, answers.Formats[1:]...)
	}
	if h.ReviewersPerItem != nil {
		c.number("reviewers_per_item", h.ReviewersPerItem, 1, db.MaxReviewersPerItem)
	}
	c.time("created_at", h.CreatedAt)
	c.time("started_at", h.StartedAt)
	c.time("completed_at", h.CompletedAt)
	c.text("id_column", &h.IDColumn, dataset.MaxColumnName)
	choose(c, "dataset_encoding", h.Encoding, dataset.Encodings...)
	n := newTask{NewTask: db.NewTask{By: by, Channels: &[]uuid.UUID{}, Task: db.Task{
		ID: uuid.New(), Name: h.Name, RunsPerItem: h.RunsPerItem, TimeoutSeconds: h.TimeoutSeconds, MaxRetries: h.MaxRetries,
		UseStream:   h.UseStream,
		Concurrency: h.Concurrency, OnTurnFailure: h.OnTurnFailure, ClusterBy: h.ClusterBy, Adaptive: h.Adaptive,
		MeaningTarget: h.MeaningTarget, AnswersFrom: h.AnswersFrom, MaxCost: h.MaxCost,
		ReviewSettings: db.ReviewSettings{IsBlindReview: h.IsBlindReview, HidesReviews: h.HidesReviews,
			ReviewersPerItem: h.ReviewersPerItem},
		DatasetName:      tasks.StorableName(h.DatasetName),
		DatasetExtension: h.Extension, QuestionColumn: h.QuestionColumn, AnswerColumn: h.AnswerColumn,
		IDColumn: h.IDColumn, DatasetEncoding: h.Encoding,
		VariableNames: textsOf(h.VariableNames),
	}}}
	h.addTargets(c, &n.Task)
	h.addVariants(c, &n.Task)
	h.addEvaluators(ctx, c, &n.Task)
	return n, c.err()
}

func (h header) checkSettings(c *checker) {
	settings := tasks.Settings{
		RunsPerItem: h.RunsPerItem, TimeoutSeconds: h.TimeoutSeconds, MaxRetries: h.MaxRetries, Concurrency: h.Concurrency,
		OnTurnFailure: h.OnTurnFailure, MaxCost: tasks.TextOf(h.MaxCost), Adaptive: h.Adaptive,
	}
	for _, wrong := range settings.Validate() {
		c.accept(wrong.Field, wrong)
	}
	choose(c, "on_turn_failure", h.OnTurnFailure, db.OnTurnFailures...)
	c.require(h.MaxCost == nil || *h.MaxCost != "", "max_cost", wantCost)
}

func (h header) checkVariables(c *checker) {
	seen := map[string]bool{}
	for place, name := range h.VariableNames {
		member, folded := fmt.Sprintf("variable_names[%d]", place+1), strings.ToLower(string(name))
		c.present(member, string(name))
		c.text(member, (*string)(&name), dataset.MaxColumnName)
		c.require(!seen[folded], member, wantOnce)
		seen[folded] = true
	}
}

// maxTargets is the maximum number of targets: for all variants and evaluators, and for the models that grouped
// answers.
const maxTargets = tasks.MaxVariants + tasks.MaxEvaluators + 20

func (h header) addTargets(c *checker, task *db.Task) {
	c.require(len(h.Targets) >= 1 && len(h.Targets) <= maxTargets, "targets", wantList, "Max", maxTargets)
	for place, one := range h.Targets {
		member := fmt.Sprintf("targets[%d].", place+1)
		one.check(c, member)
		one.checkAddress(c, member, h.AnswersFrom != nil)
		c.number(member+"number", &one.Number, place+1, place+1)
		stored := db.Target{
			TaskID: task.ID, Number: one.Number, Kind: one.Kind, Name: one.Name, Protocol: one.Protocol, URL: one.URL,
			Model: one.Model, RateLimit: one.RateLimit,
			RetryOn: textsOf(one.RetryOn), InputPrice: one.InputPrice, OutputPrice: one.OutputPrice, Currency: one.Currency,
			Poll: tasks.Given(string(one.Poll)),
		}
		if one.Kind == db.TargetJudge {
			task.Judges = append(task.Judges, stored)
		} else {
			task.Targets = append(task.Targets, stored)
		}
	}
	c.require(h.MeaningTarget == nil || isJudge(task.Judges, *h.MeaningTarget), "meaning_target", wantKnown)
}

// isJudge reports whether one of the judges has this number.
func isJudge(judges []db.Target, number int) bool {
	return slices.ContainsFunc(judges, func(judge db.Target) bool { return judge.Number == number })
}

func (t *target) check(c *checker, member string) {
	choose(c, member+"kind", t.Kind, db.TargetURL, db.TargetAgent, db.TargetModel, db.TargetJudge)
	c.name(member+"name", t.Name, tasks.MaxEntryName)
	_, isKnown := protocol.Of(t.Protocol)
	c.require(isKnown, member+"protocol", wantChoice, "Choices", strings.Join(protocolNames(), ", "))
	if t.Model != nil {
		c.name(member+"model", *t.Model, tasks.MaxModelLength)
	}
	_, err := tasks.ParseRate(t.RateLimit)
	c.require(err == nil && len(t.RateLimit) <= maxRate, member+"rate_limit", wantRate)
	for _, kind := range t.RetryOn {
		choose(c, member+"retry_on", string(kind), agent.RetryKinds...)
	}
	c.require(t.InputPrice == nil || db.IsPrice(*t.InputPrice), member+"input_price", wantPrice)
	c.require(t.OutputPrice == nil || db.IsPrice(*t.OutputPrice), member+"output_price", wantPrice)
	c.require(t.Currency == nil || tasks.IsCurrency(*t.Currency), member+"currency", wantChoice, "Choices",
		"CNY, USD, EUR, …")
	if string(t.Poll) == "null" {
		t.Poll = nil
	}
	if t.Poll != nil {
		var poll protocol.Poll
		isPoll := len(t.Poll) <= maxPoll && decode(t.Poll, &poll) == nil && tasks.IsPoll(poll) && !hasNUL(t.Poll)
		c.require(isPoll && poll.IntervalSeconds >= 1 && poll.IntervalSeconds <= tasks.MaxPollInterval,
			member+"poll", wantPoll)
	}
}

// checkAddress checks the address of a target. A target of imported answers has no address.
func (t *target) checkAddress(c *checker, member string, isOfFile bool) {
	if isOfFile && t.Kind != db.TargetJudge {
		c.require(t.URL == "", member+"url", wantAddress)
		return
	}
	c.name(member+"url", t.URL, tasks.MaxAddress)
	address, err := url.Parse(t.URL)
	c.require(err == nil && tasks.IsAgentURL(address), member+"url", wantAddress)
}

// hasNUL reports whether a text of valid JSON contains an escaped NUL character.
func hasNUL(text json.RawMessage) bool { return escapedNUL.Match(text) }

// escapedNUL is \u0000 after an even number of backslashes.
var escapedNUL = regexp.MustCompile(`(^|[^\\])(\\\\)*\\u0000`)

func protocolNames() (names []string) {
	for _, one := range protocol.All {
		names = append(names, one.Name)
	}
	return names
}

func (h header) addVariants(c *checker, task *db.Task) {
	c.require(len(h.Variants) >= 1 && len(h.Variants) <= tasks.MaxVariants, "variants", wantList, "Max", tasks.MaxVariants)
	for place, one := range h.Variants {
		member := fmt.Sprintf("variants[%d].", place+1)
		c.number(member+"number", &one.Number, place+1, place+1)
		c.name(member+"name", one.Name, maxVariantName)
		c.text(member+"system", one.System, tasks.MaxTemplate)
		c.text(member+"user", one.User, tasks.MaxTemplate)
		// Requests use a variant's target number as an index into the targets.
		c.require(one.Target >= 1 && one.Target <= len(task.Targets) &&
			task.Targets[max(one.Target, 1)-1].Number == one.Target, member+"target", wantKnown)
		if c.wrong != nil {
			return
		}
		task.Variants = append(task.Variants, db.Variant{
			TaskID: task.ID, Number: one.Number, Target: one.Target, Name: one.Name, SystemTemplate: one.System,
			UserTemplate: one.User,
		})
	}
}

func (h header) addEvaluators(ctx context.Context, c *checker, task *db.Task) {
	c.require(len(h.Evaluators) <= tasks.MaxEvaluators, "evaluators", wantList, "Max", tasks.MaxEvaluators)
	if c.wrong != nil {
		return
	}
	for place, one := range h.Evaluators {
		member := fmt.Sprintf("evaluators[%d].", place+1)
		c.number(member+"number", &one.Number, place+1, place+1)
		id, err := uuid.Parse(one.ID)
		c.require(err == nil, member+"id", wantUUID)
		c.number(member+"version", &one.Version, 1, maxVersion)
		c.present(member+"name", one.Name)
		c.name(member+"name", one.Name, tasks.MaxEntryName)
		choose(c, member+"kind", evaluate.Kind(one.Kind), evaluate.Kinds...)
		isOfJudge := one.Target != nil && isJudge(task.Judges, *one.Target)
		judges := evaluate.Kind(one.Kind) == evaluate.Judge
		c.require(isOfJudge && judges || one.Target == nil && !judges, member+"target", wantKnown)
		if c.wrong == nil {
			c.checkConfig(ctx, member+"config", judges, one)
		}
		task.Evaluators = append(task.Evaluators, db.Evaluator{
			TaskID: task.ID, Number: one.Number, EvaluatorID: id, Version: one.Version, Name: one.Name, Kind: one.Kind,
			Config: one.Config, Target: one.Target,
		})
	}
}

func (c *checker) checkConfig(ctx context.Context, member string, isJudge bool, one evaluator) {
	var err error
	if isJudge {
		_, err = evaluate.ParseJudge(one.Config)
	} else {
		_, err = evaluate.Compile(ctx, evaluate.Kind(one.Kind), one.Config)
	}
	if err != nil {
		c.require(false, member, wantRule, "Detail", shorten(err.Error()))
	}
	c.require(len(one.Config) > 0 && !hasNUL(one.Config), member, wantJSON)
}

// items reads the questions of a task. said maps their ids to people's groupings of their answers.
func (r *reader) items(h header) (items []db.NewItem, said map[string][]meaning.Correction, err error) {
	l, err := r.lines(itemsName, maxItems, maxItem)
	if err != nil {
		return nil, nil, err
	}
	defer l.close()
	said = map[string][]meaning.Correction{}
	seen, size, rows := map[string]bool{}, 0, []dataset.Row{}
	for {
		line, err := l.next()
		if err != nil {
			return nil, nil, err
		}
		if line == nil {
			break
		}
		if len(items) == dataset.MaxRows {
			return nil, nil, &Error{File: itemsName, Line: l.number, Problem: ProblemMany,
				Args: map[string]any{"Max": dataset.MaxRows}}
		}
		var one item
		if err := decode(line, &one); err != nil {
			return nil, nil, l.at(err)
		}
		if err := one.check(h, seen); err != nil {
			return nil, nil, l.at(err)
		}
		if size += one.size(); size > dataset.MaxText {
			return nil, nil, &Error{File: itemsName, Line: l.number, Problem: ProblemLarge,
				Args: map[string]any{"Max": dataset.MaxText >> 20}}
		}
		stored := one.stored()
		items = append(items, stored)
		if len(one.Corrections) > 0 {
			said[one.QuestionID] = storedCorrections(one.Corrections)
		}
		rows = append(rows, dataset.Row{Number: l.number, Series: stored.Series, Turn: stored.Turn})
	}
	if len(items) == 0 {
		return nil, nil, &Error{File: itemsName, Problem: ProblemEmpty}
	}
	if wrong := dataset.WrongTurns(rows, "turn"); len(wrong) > 0 {
		l.number = wrong[0].Row
		return nil, nil, l.at(valueError("turn", wantTurn))
	}
	return items, said, nil
}

// check checks one question. seen holds the ids of the questions before it.
func (i *item) check(h header, seen map[string]bool) error {
	variables := len(h.VariableNames)
	c := &checker{}
	c.present("question_id", i.QuestionID)
	c.text("question_id", &i.QuestionID, dataset.MaxID)
	c.require(!seen[i.QuestionID], "question_id", wantOnce)
	seen[i.QuestionID] = true
	c.present("question", i.Question)
	c.text("question", &i.Question, dataset.MaxText)
	c.text("standard_answer", &i.StandardAnswer, dataset.MaxText)
	c.text("system_prompt", i.SystemPrompt, dataset.MaxText)
	c.text("user_context", i.UserContext, dataset.MaxText)
	c.require((i.Series == nil) == (i.Turn == nil), "turn", wantTurn)
	if i.Series != nil {
		c.present("series", *i.Series)
		c.text("series", i.Series, dataset.MaxID)
	}
	c.number("turn", i.Turn, 1, dataset.MaxRows)
	c.require(len(i.Variables) == variables, "variables", wantCount, "Want", variables)
	for place := range i.Variables {
		c.text(fmt.Sprintf("variables[%d]", place+1), (*string)(&i.Variables[place]), dataset.MaxText)
	}
	if len(i.PlannedRuns) > 0 {
		c.require(len(i.PlannedRuns) == len(h.Variants), "planned_runs", wantCount, "Want", len(h.Variants))
	}
	least, most := h.RunsPerItem, tasks.MaxRuns
	if h.AnswersFrom != nil {
		least, most = 0, h.RunsPerItem
	}
	for place := range i.PlannedRuns {
		c.number(fmt.Sprintf("planned_runs[%d]", place+1), (*int)(&i.PlannedRuns[place]), least, most)
	}
	i.Meaning.check(c)
	checkCorrections(c, i.Corrections, len(h.Variants))
	return c.err()
}

// checkCorrections checks people's groupings of a question's answers, at most one for each variant.
func checkCorrections(c *checker, all list[corrected], variants int) {
	seen := map[int]bool{}
	for place := range all {
		one, member := &all[place], fmt.Sprintf("corrections[%d].", place+1)
		c.number(member+"variant", &one.Variant, 1, variants)
		c.require(!seen[one.Variant], member+"variant", wantOnce)
		seen[one.Variant] = true
		c.number(member+"version", &one.Version, 1, maxVersion)
		c.present(member+"reviewer", one.Reviewer)
		c.name(member+"reviewer", one.Reviewer, tasks.MaxEntryName)
		c.require(one.CreatedAt != nil, member+"created_at", wantTime)
		c.time(member+"created_at", one.CreatedAt)
		c.require(len(one.Answers) > 0, member+"answers", wantRequired)
		for n := range one.Answers {
			answer, member := &one.Answers[n], fmt.Sprintf("%sanswers[%d].", member, n+1)
			c.key(member+"key", answer.Key)
			c.number(member+"group", &answer.Group, 0, len(one.Answers)-1)
			c.number(member+"content", &answer.Content, 0, len(one.Answers))
		}
	}
}

// storedCorrections returns people's groupings in the form that the store expects.
func storedCorrections(all list[corrected]) (said []meaning.Correction) {
	for _, one := range all {
		stored := meaning.Correction{Variant: one.Variant, Version: one.Version, Reviewer: one.Reviewer,
			CreatedAt: one.CreatedAt.Time}
		for _, answer := range one.Answers {
			key, _ := hex.DecodeString(answer.Key) // valid, because the line was checked
			stored.Keys, stored.Groups = append(stored.Keys, key), append(stored.Groups, int64(answer.Group))
			stored.Contents = append(stored.Contents, int64(answer.Content))
		}
		said = append(said, stored)
	}
	return said
}

// check checks a model's grouping of a question's answers; nil is valid.
func (g *grouped) check(c *checker) {
	if g == nil {
		return
	}
	for place, one := range g.Answers {
		member := fmt.Sprintf("meaning.answers[%d].", place+1)
		c.key(member+"key", one.Key)
		c.number(member+"group", &one.Group, 0, len(g.Answers)-1)
	}
	for place, note := range g.Notes {
		c.name(fmt.Sprintf("meaning.notes[%d]", place+1), string(note), evaluate.MaxNote)
	}
	c.require(len(g.Notes) <= max(1, len(g.Answers)), "meaning.notes", wantCount, "Want", len(g.Answers))
}

// keyBytes is the length of an answer's key in bytes; in archives the key is written in hexadecimal.
const keyBytes = 16

func (c *checker) key(member, key string) {
	_, err := hex.DecodeString(key)
	c.require(err == nil && len(key) == 2*keyBytes, member, wantBytes)
}

// stored returns the grouping in the form that the store expects.
func (g *grouped) stored() *meaning.Grouping {
	if g == nil {
		return nil
	}
	said := meaning.NewGrouping(textsOf(g.Notes), g.IsDefault)
	for _, one := range g.Answers {
		key, _ := hex.DecodeString(one.Key) // valid, because the line was checked
		said.Add(key, one.Group, one.IsUnsure)
	}
	return &said
}

func (i *item) size() (size int) {
	size = len(i.QuestionID) + len(i.Question) + len(i.StandardAnswer) + len(tasks.TextOf(i.SystemPrompt)) +
		len(tasks.TextOf(i.UserContext))
	for _, value := range i.Variables {
		size += len(value)
	}
	return size
}

func (i *item) stored() db.NewItem {
	stored := db.NewItem{
		QuestionID: i.QuestionID, Question: i.Question, StandardAnswer: i.StandardAnswer, SystemPrompt: i.SystemPrompt,
		UserContext: i.UserContext,
		Series:      tasks.TextOf(i.Series), Variables: textsOf(i.Variables), Meaning: i.Meaning.stored(),
	}
	if i.Turn != nil {
		stored.Turn = *i.Turn
	}
	for _, runs := range i.PlannedRuns {
		stored.Planned = append(stored.Planned, int(runs))
	}
	return stored
}

// runs reads the runs of a task.
type runs struct {
	*lines
	// places maps the ids of the task's questions to their indexes; isThere marks the runs already read (see indexOf).
	places     map[string]int
	isThere    []bool
	task       db.NewTask
	evaluators int
}

func (r *reader) runs(n db.NewTask) (*runs, error) {
	l, err := r.lines(runsName, maxRuns, maxRun)
	if err != nil {
		return nil, err
	}
	all := &runs{lines: l, places: map[string]int{}, task: n, evaluators: len(n.Task.Evaluators)}
	for place, item := range n.Items {
		all.places[item.QuestionID] = place
	}
	all.isThere = make([]bool, len(n.Items)*len(n.Task.Variants)*tasks.MaxRuns)
	return all, nil
}

// next returns the next run with the length of its line in bytes, and nil after the last run.
func (r *runs) next() (*upkeep.ArchivedRun, int, error) {
	text, err := r.lines.next()
	if err != nil || text == nil {
		return nil, 0, err
	}
	var one runLine
	if err := decode(text, &one); err != nil {
		return nil, 0, r.at(err)
	}
	c := &checker{}
	r.checkPlace(c, upkeep.RunPlace{QuestionID: one.QuestionID, Variant: one.Variant, RunIndex: one.RunIndex})
	one.check(c, r.evaluators)
	return one.stored(), len(text), r.at(c.err())
}

// checkPlace checks the question, variant and run index to which a run belongs, and notes that the run is there.
func (r *runs) checkPlace(c *checker, one upkeep.RunPlace) {
	r.checkKnown(c, one)
	if c.wrong != nil {
		return
	}
	at := r.indexOf(one)
	c.require(!r.isThere[at], "run_index", wantOnce)
	r.isThere[at] = true
}

func (r *runs) indexOf(one upkeep.RunPlace) int {
	return (r.places[one.QuestionID]*len(r.task.Task.Variants)+one.Variant-1)*tasks.MaxRuns + one.RunIndex - 1
}

// checkRead checks that a run has been read before.
func (r *runs) checkRead(c *checker, one upkeep.RunPlace) {
	if r.checkKnown(c, one); c.wrong == nil {
		c.require(r.isThere[r.indexOf(one)], "run_index", wantKnown)
	}
}

// checkKnown checks that the task has this question and variant, and that run_index is among their planned runs.
func (r *runs) checkKnown(c *checker, one upkeep.RunPlace) {
	place, isKnown := r.places[one.QuestionID]
	c.require(isKnown, "question_id", wantKnown)
	variants := len(r.task.Task.Variants)
	c.number("variant", &one.Variant, 1, variants)
	if c.wrong != nil {
		return
	}
	repeats := r.task.Task.RunsPerItem
	if planned := r.task.Items[place].Planned; planned != nil {
		repeats = planned[one.Variant-1]
	}
	c.number("run_index", &one.RunIndex, 1, repeats)
}

// runLine is a line of the part runsName.
type runLine struct {
	upkeep.ArchivedRun
	CreatedAt *moment `json:"created_at"`
	// ResponseBytes is in base64.
	ResponseBytes *string              `json:"response_bytes"`
	Evaluations   list[evaluationLine] `json:"evaluations"`
	// FailedAttempts is absent in archives of older versions.
	FailedAttempts list[attemptLine] `json:"failed_attempts"`
}

type attemptLine struct {
	db.FailedAttempt
	StartedAt *moment `json:"started_at"`
}

type evaluationLine struct {
	upkeep.ArchivedEvaluation
	Ratings json.RawMessage `json:"ratings"`
}

// costOfRun matches a run's cost in the form in which the database returns it.
var costOfRun = regexp.MustCompile(`^[0-9]{1,18}(\.[0-9]{1,40})?$`)

var traceID = regexp.MustCompile(`^[0-9a-f]{32}$`)

func (r *runLine) check(c *checker, evaluators int) {
	choose(c, "status", r.Status, db.RunSucceeded, db.RunFailed, db.RunTimeout)
	c.text("response_body", r.ResponseBody, maxAnswer)
	c.require(r.Status != db.RunSucceeded || r.ResponseBody != nil, "response_body", wantString)
	if r.ResponseBytes != nil {
		var err error
		r.ArchivedRun.ResponseBytes, err = base64.StdEncoding.DecodeString(*r.ResponseBytes)
		c.require(err == nil && len(r.ArchivedRun.ResponseBytes) <= maxAnswer, "response_bytes", wantBytes)
	}
	c.text("reasoning", r.Reasoning, maxAnswer)
	c.text("error_code", r.ErrorCode, maxCode)
	c.text("error_message", r.ErrorMessage, maxMessage)
	if r.FinishReason != nil {
		choose(c, "finish_reason", *r.FinishReason, protocol.Finishes...)
	}
	c.require(r.TraceID == nil || traceID.MatchString(*r.TraceID), "trace_id", wantString)
	c.require(r.AgentTraceID == nil || protocol.IsAgentTraceID(*r.AgentTraceID), "agent_trace_id", wantString)
	c.text("conversation_id", r.ConversationID, maxMessage)
	c.number("latency_ms", r.LatencyMS, 0, maxInt)
	c.number("attempts", r.Attempts, 0, maxAttempts)
	c.number("first_token_ms", r.FirstTokenMS, 0, maxInt)
	c.number("longest_silence_ms", r.LongestSilence, 0, maxInt)
	c.number("input_tokens", r.InputTokens, 0, maxTokens)
	c.number("output_tokens", r.OutputTokens, 0, maxTokens)
	c.number("reasoning_tokens", r.ReasoningTokens, 0, maxTokens)
	c.number("total_tokens", r.TotalTokens, 0, 2*maxTokens)
	c.require(r.Cost == nil || costOfRun.MatchString(*r.Cost), "cost", wantPrice)
	c.share("score", r.Score)
	c.time("created_at", r.CreatedAt)
	c.require(len(r.FailedAttempts) <= db.MaxFailedAttempts, "failed_attempts", wantList, "Max", db.MaxFailedAttempts)
	for place := range r.FailedAttempts {
		r.FailedAttempts[place].check(c, fmt.Sprintf("failed_attempts[%d].", place+1))
	}
	seen := map[int]bool{}
	for place := range r.Evaluations {
		one, member := &r.Evaluations[place], fmt.Sprintf("evaluations[%d].", place+1)
		c.require(one.Evaluator >= 1 && one.Evaluator <= evaluators, member+"evaluator", wantKnown)
		c.require(!seen[one.Evaluator], member+"evaluator", wantOnce)
		seen[one.Evaluator] = true
		one.check(c, member)
	}
}

func (a *attemptLine) check(c *checker, member string) {
	c.number(member+"attempt", &a.Attempt, 1, maxAttempts)
	c.require(a.StartedAt != nil, member+"started_at", wantTime)
	c.time(member+"started_at", a.StartedAt)
	c.number(member+"latency_ms", &a.LatencyMS, 0, maxInt)
	c.text(member+"error_code", &a.ErrorCode, maxCode)
	c.text(member+"error_message", &a.ErrorMessage, maxMessage)
	c.number(member+"http_status", a.HTTPStatus, 100, 599)
	c.text(member+"body", &a.Body, maxMessage)
}

func (e *evaluationLine) check(c *checker, member string) {
	choose(c, member+"status", evaluate.Status(e.Status), evaluate.Succeeded, evaluate.Failed, evaluate.Skipped)
	c.share(member+"score", e.Score)
	c.text(member+"reason", e.Reason, maxMessage)
	c.text(member+"error_code", e.ErrorCode, maxCode)
	c.text(member+"error_message", e.ErrorMessage, maxMessage)
	c.text(member+"raw", e.Raw, maxSaid)
	c.number(member+"latency_ms", e.LatencyMS, 0, maxInt)
	c.number(member+"input_tokens", e.InputTokens, 0, maxTokens)
	c.number(member+"output_tokens", e.OutputTokens, 0, maxTokens)
	c.number(member+"total_tokens", e.TotalTokens, 0, 2*maxTokens)
	c.require(e.Cost == nil || costOfRun.MatchString(*e.Cost), member+"cost", wantPrice)
	c.number(member+"version", e.Version, 1, maxVersion)
	c.require(len(e.Votes) <= maxVotes, member+"votes", wantList, "Max", maxVotes)
	for n := range e.Votes {
		c.share(member+"votes", &e.Votes[n])
	}
	if e.Ratings == nil {
		return
	}
	c.require(len(e.Ratings) <= maxRatings && json.Unmarshal(e.Ratings, &e.ArchivedEvaluation.Ratings) == nil,
		member+"ratings", wantJSON)
	for dimension, rating := range e.ArchivedEvaluation.Ratings {
		c.name(member+"ratings", dimension, evaluate.MaxDimension)
		c.require(rating >= 0 && rating <= evaluate.MaxRating, member+"ratings", wantNumber, "Min", 0, "Max",
			evaluate.MaxRating)
	}
}

// stored returns the run in its stored form. Its key is computed from the answer.
func (r *runLine) stored() *upkeep.ArchivedRun {
	run := &r.ArchivedRun
	run.CreatedAt, run.AnswerKey = r.CreatedAt.time(), nil
	if run.Status == db.RunSucceeded && run.ResponseBody != nil {
		answer := run.ResponseBytes
		if r.ResponseBytes == nil {
			answer = []byte(*run.ResponseBody)
		}
		key := hex.EncodeToString(measure.Key(answer))
		run.AnswerKey = &key
	}
	for _, one := range r.Evaluations {
		run.Evaluations = append(run.Evaluations, one.ArchivedEvaluation)
	}
	for _, one := range r.FailedAttempts {
		if at := one.StartedAt.time(); at != nil {
			one.FailedAttempt.StartedAt = *at
		}
		run.FailedAttempts = run.FailedAttempts.With(one.FailedAttempt)
	}
	return run
}
