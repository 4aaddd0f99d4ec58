// Package library implements the operations on the library: saving entries, testing them, and copying them into tasks.
// It also implements schedules, which copy tasks, run the copies when they are due, and report the trend of the copies'
// figures. Pages and API call the same functions, none of which depends on HTTP.
package library

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/outbox"
	"wending/db/upkeep"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
	"wending/jobs/blob"
	"wending/jobs/courier/notify"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// Service performs the operations on the library.
type Service struct {
	Entries entries.Library
	Files   *blob.Disk
	Sealer  *secret.Sealer
	Tasks   *tasks.Service
	// Agents calls agents and Models calls models: the rules for allowed addresses differ.
	Agents *agent.Client
	Models *agent.Client
	// Sender sends messages to channels; Outbox stores their deliveries.
	Sender *notify.Sender
	Outbox outbox.Outbox
	// DefaultRate is the rate limit of targets that do not set one.
	DefaultRate string
	// ScheduleMinutes is the minimum interval between two times of a schedule, in minutes; 0 means no minimum beyond
	// cron's own.
	ScheduleMinutes int
	Log             *slog.Logger
}

// Provider is an account through which models are called, with its secrets.
type Provider struct {
	Name, Protocol, BaseURL, APIKey string
	Headers                         map[string]string
	// RateLimit is empty for the default.
	RateLimit string
	RetryOn   []string
}

// Model is a model of a provider.
type Model struct {
	Name       string
	ProviderID uuid.UUID
	ModelID    string
	// Parameters is a JSON object; nil means that there is none.
	Parameters json.RawMessage
	Prices
}

// Prices are the prices of a target's tokens.
type Prices struct {
	// InputPrice and OutputPrice are decimal numbers per million tokens; empty means unknown.
	InputPrice, OutputPrice, Currency string
}

func (p Prices) row() entries.Prices {
	return entries.Prices{InputPrice: tasks.Given(p.InputPrice), OutputPrice: tasks.Given(p.OutputPrice),
		Currency: tasks.Given(p.Currency)}
}

func pricesOf(row entries.Prices) Prices {
	return Prices{InputPrice: tasks.TextOf(row.InputPrice), OutputPrice: tasks.TextOf(row.OutputPrice),
		Currency: tasks.TextOf(row.Currency)}
}

// Agent is an agent with its secrets.
type Agent struct {
	Name, Protocol string
	// URL includes its query.
	URL     string
	Headers map[string]string
	// ExtraPayload and Template are JSON objects; nil means none.
	ExtraPayload, Template json.RawMessage
	// Poll describes how to poll an agent that accepts jobs; nil means that the agent answers directly.
	Poll      *protocol.Poll
	RateLimit string
	RetryOn   []string
	Prices
}

// Each secret is sealed for its entry and for one of these fields, so that it cannot be moved to another.
const (
	keyPlace        = "/key"
	headersPlace    = "/headers"
	parametersPlace = "/parameters"
	payloadPlace    = "/payload"
	templatePlace   = "/template"
	queryPlace      = "/query"
	urlPlace        = "/url"
	secretPlace     = "/secret"
)

// seal seals a value unless it is empty.
func (s *Service) seal(has bool, value any, id uuid.UUID, place string, into *[]byte) (err error) {
	if *into = nil; has {
		*into, err = s.Sealer.Seal(value, id.String()+place)
	}
	return err
}

// Reseal reseals, with the sealer's current key, the library's secrets that were sealed with its other keys. progress
// is called with the number of values changed so far, and the number left because no key opens them.
func Reseal(ctx context.Context, store *db.Store, sealer *secret.Sealer, progress func(changed, left int)) error {
	again := func(old []byte, owner string) ([]byte, error) {
		var value json.RawMessage
		err := sealer.Open(old, owner, &value)
		if errors.Is(err, secret.ErrKey) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return sealer.Seal(value, owner)
	}
	return upkeep.NewSecrets(store).ResealLibrary(ctx, sealer.Head(), again, progress)
}

// SaveProvider stores a provider, a new one if id is uuid.Nil, and returns its id.
func (s *Service) SaveProvider(ctx context.Context, scope db.Scope, id uuid.UUID, p Provider) (uuid.UUID, error) {
	isNew := id == uuid.Nil
	if isNew {
		id = uuid.New()
	}
	row := entries.Provider{
		Entry: entries.Entry{ID: id, Name: p.Name}, Protocol: p.Protocol, BaseURL: p.BaseURL,
		RateLimit: tasks.Given(p.RateLimit), RetryOn: p.RetryOn,
	}
	err := errors.Join(s.seal(p.APIKey != "", p.APIKey, id, keyPlace, &row.SealedKey),
		s.seal(len(p.Headers) > 0, p.Headers, id, headersPlace, &row.SealedHeaders))
	if err != nil {
		return uuid.Nil, err
	}
	return id, save(ctx, scope, s.Entries.Providers, row, isNew)
}

func save[T any](ctx context.Context, scope db.Scope, kind entries.Kind[T], row T, isNew bool) error {
	if isNew {
		return kind.Insert(ctx, scope, row)
	}
	return kind.Update(ctx, scope, row)
}

// OpenProvider opens a provider's secrets.
func (s *Service) OpenProvider(row entries.Provider) (p Provider, err error) {
	p = Provider{Name: row.Name, Protocol: row.Protocol, BaseURL: row.BaseURL, RateLimit: tasks.TextOf(row.RateLimit),
		RetryOn: row.RetryOn}
	err = errors.Join(
		s.Sealer.Open(row.SealedKey, row.ID.String()+keyPlace, &p.APIKey),
		s.Sealer.Open(row.SealedHeaders, row.ID.String()+headersPlace, &p.Headers))
	return p, err
}

// SaveModel stores a model, a new one if id is uuid.Nil, and returns its id. A change discards the result of the
// last test.
func (s *Service) SaveModel(ctx context.Context, scope db.Scope, id uuid.UUID, m Model) (uuid.UUID, error) {
	isNew := id == uuid.Nil
	if isNew {
		id = uuid.New()
	}
	row := entries.Model{
		Entry: entries.Entry{ID: id, Name: m.Name}, ProviderID: m.ProviderID, ModelID: m.ModelID, Prices: m.row(),
	}
	if err := s.seal(m.Parameters != nil, m.Parameters, id, parametersPlace, &row.SealedParameters); err != nil {
		return uuid.Nil, err
	}
	return id, save(ctx, scope, s.Entries.Models, row, isNew)
}

// OpenModel opens a model's secrets.
func (s *Service) OpenModel(row entries.Model) (m Model, err error) {
	m = Model{Name: row.Name, ProviderID: row.ProviderID, ModelID: row.ModelID, Prices: pricesOf(row.Prices)}
	return m, s.Sealer.Open(row.SealedParameters, row.ID.String()+parametersPlace, &m.Parameters)
}

// SaveAgent stores an agent, a new one if id is uuid.Nil, and returns its id. A change discards the result of the
// last test.
func (s *Service) SaveAgent(ctx context.Context, scope db.Scope, id uuid.UUID, a Agent) (uuid.UUID, error) {
	isNew := id == uuid.Nil
	if isNew {
		id = uuid.New()
	}
	address, query, hasQuery := strings.Cut(a.URL, "?")
	row := entries.Agent{
		Entry: entries.Entry{ID: id, Name: a.Name}, Protocol: a.Protocol, URL: address, RateLimit: tasks.Given(a.RateLimit),
		RetryOn: a.RetryOn, Prices: a.row(),
	}
	err := errors.Join(
		s.seal(hasQuery, query, id, queryPlace, &row.SealedQuery),
		s.seal(len(a.Headers) > 0, a.Headers, id, headersPlace, &row.SealedHeaders),
		s.seal(a.ExtraPayload != nil, a.ExtraPayload, id, payloadPlace, &row.SealedPayload),
		s.seal(a.Template != nil, a.Template, id, templatePlace, &row.SealedTemplate))
	if err != nil {
		return uuid.Nil, err
	}
	if row.Poll, err = tasks.PollText(a.Poll); err != nil {
		return uuid.Nil, err
	}
	return id, save(ctx, scope, s.Entries.Agents, row, isNew)
}

// OpenAgent opens an agent's secrets.
func (s *Service) OpenAgent(row entries.Agent) (a Agent, err error) {
	owner := row.ID.String()
	a = Agent{
		Name: row.Name, Protocol: row.Protocol, URL: row.URL, RateLimit: tasks.TextOf(row.RateLimit), RetryOn: row.RetryOn,
		Prices: pricesOf(row.Prices),
	}
	var query *string
	err = errors.Join(
		s.Sealer.Open(row.SealedQuery, owner+queryPlace, &query),
		s.Sealer.Open(row.SealedHeaders, owner+headersPlace, &a.Headers),
		s.Sealer.Open(row.SealedPayload, owner+payloadPlace, &a.ExtraPayload),
		s.Sealer.Open(row.SealedTemplate, owner+templatePlace, &a.Template))
	if query != nil {
		a.URL += "?" + *query
	}
	if err == nil {
		a.Poll, err = tasks.ReadPoll(row.Poll)
	}
	return a, err
}

// agentTarget returns an agent as a task stores it.
func (s *Service) agentTarget(a Agent) tasks.NewTarget {
	prices := a.row()
	return tasks.NewTarget{
		Target: db.Target{
			Kind: db.TargetAgent, Name: a.Name, Protocol: a.Protocol, RateLimit: s.rate(a.RateLimit), RetryOn: a.RetryOn,
			InputPrice: prices.InputPrice, OutputPrice: prices.OutputPrice, Currency: prices.Currency,
		},
		Secrets: tasks.Target{URL: a.URL, Headers: a.Headers, Payload: a.ExtraPayload, Template: a.Template, Poll: a.Poll},
	}
}

func (s *Service) rate(own string) string {
	if own == "" {
		return s.DefaultRate
	}
	return own
}

// modelTarget returns a model as a task stores it, including the settings of its provider.
func (s *Service) modelTarget(ctx context.Context, scope db.Scope, m Model) (tasks.NewTarget, error) {
	provider, err := s.Entries.Providers.Get(ctx, scope, m.ProviderID)
	if err != nil {
		return tasks.NewTarget{}, err
	}
	p, err := s.OpenProvider(provider)
	if err != nil {
		return tasks.NewTarget{}, err
	}
	spoken, _ := protocol.Of(p.Protocol)
	headers := map[string]string{}
	maps.Copy(headers, p.Headers)
	if p.APIKey != "" {
		spoken.SetKey(headers, p.APIKey)
	}
	prices := m.row()
	return tasks.NewTarget{
		Target: db.Target{
			Kind: db.TargetModel, Name: m.Name, Protocol: p.Protocol, Model: &m.ModelID, RateLimit: s.rate(p.RateLimit),
			RetryOn:    p.RetryOn,
			InputPrice: prices.InputPrice, OutputPrice: prices.OutputPrice, Currency: prices.Currency,
		},
		Secrets: tasks.Target{URL: spoken.ModelURL(p.BaseURL), Headers: headers, Payload: m.Parameters},
	}, nil
}

// testTimeout is the maximum duration of a test call.
const testTimeout = 60 * time.Second

// Tested is the outcome of a test call.
type Tested struct {
	// Protocol is the protocol of the call. After Detect, it is the recognised protocol, or empty if none was
	// recognised.
	Protocol string
	protocol.Answer
}

// TryAgent sends a question to an agent, which need not be saved yet.
func (s *Service) TryAgent(ctx context.Context, a Agent, question string) (Tested, error) {
	return s.try(ctx, s.Agents, s.agentTarget(a), question)
}

// TryModel sends a question to a model, which need not be saved yet.
func (s *Service) TryModel(ctx context.Context, scope db.Scope, m Model, question string) (Tested, error) {
	target, err := s.modelTarget(ctx, scope, m)
	if err != nil {
		return Tested{}, err
	}
	return s.try(ctx, s.Models, target, question)
}

// TestAgent sends a question to a saved agent and stores the outcome.
func (s *Service) TestAgent(ctx context.Context, scope db.Scope, row entries.Agent, question string) (Tested, error) {
	a, err := s.OpenAgent(row)
	if err != nil {
		return Tested{}, err
	}
	tested, err := s.TryAgent(ctx, a, question)
	if err != nil {
		return Tested{}, err
	}
	return tested, NoteTest(ctx, scope, s.Entries.Agents, row.ID, tested)
}

// TestModel sends a question to a saved model and stores the outcome.
func (s *Service) TestModel(ctx context.Context, scope db.Scope, row entries.Model, question string) (Tested, error) {
	m, err := s.OpenModel(row)
	if err != nil {
		return Tested{}, err
	}
	tested, err := s.TryModel(ctx, scope, m, question)
	if err != nil {
		return Tested{}, err
	}
	return tested, NoteTest(ctx, scope, s.Entries.Models, row.ID, tested)
}

// NoteTest records the outcome of a test call to a saved target and, if it succeeded, its duration and tokens, which
// estimates use until there are runs.
func NoteTest[T any](ctx context.Context, scope db.Scope, kind entries.Kind[T], id uuid.UUID, tested Tested) error {
	if err := kind.NoteTest(ctx, scope, id, tested.ErrorCode); err != nil || tested.Status != protocol.Succeeded {
		return err
	}
	return kind.NoteMeasure(ctx, scope, id, entries.Measure{
		LatencyMS: int(tested.Latency.Milliseconds()), InputTokens: tested.Usage.Input, OutputTokens: tested.Usage.Output,
	})
}

func (s *Service) try(ctx context.Context, client *agent.Client, target tasks.NewTarget,
	question string) (Tested, error) {
	awaitSlot := func() error { return s.Tasks.AwaitSlot(ctx, target.Secrets.URL, target.RateLimit, slotPatience) }
	if err := awaitSlot(); err != nil {
		return Tested{}, err
	}
	answer := client.AskEither(ctx, testRequest(target, question), func() bool { return awaitSlot() == nil })
	return Tested{target.Protocol, answer}, nil
}

// slotPatience is how long a test waits for a slot of the target's rate limit.
const slotPatience = 10 * time.Second

func testRequest(target tasks.NewTarget, question string) protocol.Request {
	return protocol.Request{
		Protocol: target.Protocol, URL: target.Secrets.URL, Headers: target.Secrets.Headers,
		Template: target.Secrets.Template, ExtraPayload: target.Secrets.Payload, Poll: target.Secrets.Poll,
		Question: question, Stream: true, Model: tasks.TextOf(target.Model),
		IdempotencyKey: "wending-test-" + uuid.NewString(), Timeout: testTimeout, RawLimit: 64 << 10,
	}
}

// Detect recognises the protocol of an agent at an address.
func (s *Service) Detect(ctx context.Context, address string, headers map[string]string, payload json.RawMessage,
	question string) (Tested, error) {
	awaitSlot := func() error { return s.Tasks.AwaitSlot(ctx, address, s.DefaultRate, slotPatience) }
	if err := awaitSlot(); err != nil {
		return Tested{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, testTimeout) // one deadline for all its calls
	defer cancel()
	target := tasks.NewTarget{Secrets: tasks.Target{URL: address, Headers: headers, Payload: payload}}
	name, answer := s.Agents.Detect(ctx, testRequest(target, question), func() bool { return awaitSlot() == nil })
	return Tested{name, answer}, nil
}

// ErrUnknownReference means that an entry named by a task is not in the library, or is archived.
var ErrUnknownReference = errors.New("not in the library")

// Reference refers to an entry of the library: <id> or <id>@<version>.
type Reference struct {
	ID uuid.UUID
	// Version is 0 for the newest version.
	Version int
	// IsArchivedToo means that the entry is also found if it is archived and no longer offered.
	IsArchivedToo bool
}

// ParseReference parses a reference; it returns ErrUnknownReference for any other text.
func ParseReference(text string) (r Reference, err error) {
	id, version, hasVersion := strings.Cut(strings.TrimSpace(text), "@")
	if r.ID, err = uuid.Parse(id); err != nil || len(id) != 36 {
		return r, ErrUnknownReference
	}
	if hasVersion {
		if r.Version, err = strconv.Atoi(version); err != nil || r.Version < 1 {
			return r, ErrUnknownReference
		}
	}
	return r, nil
}

// offered returns ErrUnknownReference if an entry was not found or, unless IsArchivedToo is set, is archived. err is
// the error of looking up the entry.
func (r Reference) offered(archivedAt *time.Time, err error) error {
	if errors.Is(err, db.ErrNotFound) || err == nil && archivedAt != nil && !r.IsArchivedToo {
		return ErrUnknownReference
	}
	return err
}

// ModelTarget returns the copy of a saved model that a task stores, and whether the model's last test failed.
func (s *Service) ModelTarget(ctx context.Context, scope db.Scope,
	r Reference) (target tasks.NewTarget, hasFailed bool, err error) {
	row, err := s.Entries.Models.Get(ctx, scope, r.ID)
	if err := r.offered(row.ArchivedAt, err); err != nil {
		return target, false, err
	}
	m, err := s.OpenModel(row)
	if err != nil {
		return target, false, err
	}
	target, err = s.modelTarget(ctx, scope, m)
	target.LibraryID = &row.ID
	return target, row.HasFailed(), err
}

// AgentTarget returns the copy of a saved agent that a task stores, and whether the agent's last test failed.
func (s *Service) AgentTarget(ctx context.Context, scope db.Scope,
	r Reference) (target tasks.NewTarget, hasFailed bool, err error) {
	row, err := s.Entries.Agents.Get(ctx, scope, r.ID)
	if err := r.offered(row.ArchivedAt, err); err != nil {
		return target, false, err
	}
	a, err := s.OpenAgent(row)
	target = s.agentTarget(a)
	target.LibraryID = &row.ID
	return target, row.HasFailed(), err
}

// Prompt returns a version of a saved prompt as a task stores it.
func (s *Service) Prompt(ctx context.Context, scope db.Scope, r Reference) (tasks.NewPrompt, error) {
	row, err := s.Entries.Prompts.Get(ctx, scope, r.ID)
	if err := r.offered(row.ArchivedAt, err); err != nil {
		return tasks.NewPrompt{}, err
	}
	version := row.PromptVersion
	if r.Version != 0 {
		if version, err = s.Entries.PromptVersion(ctx, scope, r.ID, r.Version); err != nil {
			return tasks.NewPrompt{}, r.offered(nil, err)
		}
	}
	return tasks.NewPrompt{ID: row.ID, Version: version.Version, Name: row.Name, System: version.System,
		User: version.User}, nil
}

// Evaluator returns a version of a saved evaluator as a task stores it; for a judge, with its model.
func (s *Service) Evaluator(ctx context.Context, scope db.Scope, r Reference) (tasks.NewEvaluator, error) {
	row, err := s.Entries.Evaluators.Get(ctx, scope, r.ID)
	if err := r.offered(row.ArchivedAt, err); err != nil {
		return tasks.NewEvaluator{}, err
	}
	version := row.EvaluatorVersion
	if r.Version != 0 {
		if version, err = s.Entries.EvaluatorVersion(ctx, scope, r.ID, r.Version); err != nil {
			return tasks.NewEvaluator{}, r.offered(nil, err)
		}
	}
	evaluator := tasks.NewEvaluator{Evaluator: db.Evaluator{
		EvaluatorID: row.ID, Version: version.Version, Name: row.Name, Kind: version.Rule, Config: version.Config,
	}}
	if evaluate.Kind(version.Rule) == evaluate.Judge {
		model, err := s.judgeModel(ctx, scope, version.Config, r.IsArchivedToo)
		if err != nil {
			return evaluator, err
		}
		evaluator.Model = &model
	}
	return evaluator, nil
}

// TriedJudge is the result of trying a judge on an answer, with the model's last reply.
type TriedJudge struct {
	evaluate.JudgeVerdict
	protocol.Answer
}

// TryJudge has a judge with this configuration rate an answer once or, if withVotes is set, as many times as the
// configuration says. Replies without ratings are ignored if another reply has some. values are the values for the
// judge's template.
func (s *Service) TryJudge(ctx context.Context, scope db.Scope, config json.RawMessage, values map[string]string,
	withVotes bool) (tried TriedJudge, err error) {
	read, err := evaluate.ParseJudge(config)
	if err != nil {
		return tried, err
	}
	target, err := s.JudgeModel(ctx, scope, config)
	if err != nil {
		return tried, err
	}
	screen, err := tasks.NewScreen(ctx, s.Tasks.Store, scope.Home(), s.Tasks.SensitivePatterns)
	if err != nil {
		return tried, err
	}
	if refusal := screen.RefuseAnswer(ctx, values); refusal != nil {
		tried.Answer = *refusal
		tried.ErrorMessage = evaluate.JudgeUnanswered(tried.ErrorCode, tried.ErrorMessage)
		tried.JudgeVerdict = read.Decide(nil)
		return tried, nil
	}
	task := db.Task{TimeoutSeconds: int(testTimeout.Seconds())}
	wanted := 1
	if withVotes {
		wanted = read.Votes
	}
	var votes []evaluate.Vote
	for n := range wanted {
		if err := s.Tasks.AwaitSlot(ctx, target.Secrets.URL, target.RateLimit, slotPatience); err != nil {
			return tried, err
		}
		tried.Answer = s.Models.Ask(ctx, tasks.AskJudge(task, target.Target, target.Secrets, read, values, uuid.New(), 0,
			n+1))
		if tried.Status != protocol.Succeeded {
			tried.ErrorMessage = evaluate.JudgeUnanswered(tried.ErrorCode, tried.ErrorMessage)
			break
		}
		if vote, isRead := read.Read(string(tried.Text)); isRead {
			votes = append(votes, vote)
		} else {
			tried.ErrorCode, tried.ErrorMessage = evaluate.CodeJudgeUnreadable, evaluate.JudgeUnreadable(tried.Text)
		}
	}
	if len(votes) > 0 {
		tried.ErrorCode, tried.ErrorMessage = "", ""
	}
	tried.JudgeVerdict = read.Decide(votes)
	return tried, nil
}

// JudgeModel returns the model of a judge with this configuration, or ErrUnknownReference if the model no
// longer exists.
func (s *Service) JudgeModel(ctx context.Context, scope db.Scope, config json.RawMessage) (tasks.NewTarget, error) {
	return s.judgeModel(ctx, scope, config, false)
}

func (s *Service) judgeModel(ctx context.Context, scope db.Scope, config json.RawMessage,
	isArchivedToo bool) (tasks.NewTarget, error) {
	read, err := evaluate.ParseJudge(config)
	if err != nil {
		return tasks.NewTarget{}, err
	}
	reference, err := ParseReference(read.ModelID)
	if err != nil {
		return tasks.NewTarget{}, err
	}
	reference.IsArchivedToo = isArchivedToo
	model, _, err := s.ModelTarget(ctx, scope, reference)
	if err != nil {
		return tasks.NewTarget{}, err
	}
	return tasks.JudgeTarget(model, config)
}

func datasetKey(id uuid.UUID, version int, extension string) string {
	return fmt.Sprintf("datasets/%s/%d/dataset.%s", id, version, extension)
}

// NewDataset is a version of a dataset to store, with the content of its file.
type NewDataset struct {
	Name, Description, Note string
	File                    tasks.File
	Layout                  dataset.Layout
	Set                     *dataset.Dataset
}

func (n NewDataset) row(id uuid.UUID) entries.Dataset {
	sum := sha256.Sum256(n.File.Content)
	return entries.Dataset{
		Entry: entries.Entry{ID: id, Name: n.Name}, Description: n.Description,
		DatasetVersion: entries.DatasetVersion{
			FileName: tasks.StorableName(n.File.Name), Extension: n.Set.Extension, Size: len(n.File.Content), SHA256: sum[:],
			IDColumn: n.Layout.ID, QuestionColumn: n.Layout.Question, AnswerColumn: n.Layout.Answer, Encoding: n.Layout.Encoding,
			Columns: n.Set.Columns, TotalItems: len(n.Set.Rows), Note: n.Note,
		},
	}
}

// CreateDataset stores a dataset with its first version.
func (s *Service) CreateDataset(ctx context.Context, scope db.Scope, n NewDataset) (entries.Dataset, error) {
	row := n.row(uuid.New())
	err := s.Entries.InsertDataset(ctx, scope, row, func(version int) error {
		return s.Files.Put(ctx, datasetKey(row.ID, version, row.Extension), bytes.NewReader(n.File.Content),
			int64(len(n.File.Content)))
	})
	if err != nil {
		return entries.Dataset{}, err
	}
	return s.Entries.Datasets.Get(ctx, scope, row.ID)
}

// AddDatasetVersion stores the next version of a dataset.
func (s *Service) AddDatasetVersion(ctx context.Context, scope db.Scope, id uuid.UUID,
	n NewDataset) (entries.Dataset, error) {
	row := n.row(id)
	return s.Entries.AddDatasetVersion(ctx, scope, row, func(version int) error {
		return s.Files.Put(ctx, datasetKey(id, version, row.Extension), bytes.NewReader(n.File.Content),
			int64(len(n.File.Content)))
	})
}

// DatasetFile returns the file of a dataset's version. The caller closes it.
func (s *Service) DatasetFile(ctx context.Context, id uuid.UUID,
	version entries.DatasetVersion) (io.ReadSeekCloser, error) {
	return s.Files.Open(ctx, datasetKey(id, version.Version, version.Extension))
}

// LayoutOf returns how to read the file of a dataset's version.
func LayoutOf(version entries.DatasetVersion) dataset.Layout {
	return dataset.Layout{ID: version.IDColumn, Question: version.QuestionColumn, Answer: version.AnswerColumn,
		Encoding: version.Encoding}
}

// ReadDataset reads a version of a dataset.
func (s *Service) ReadDataset(ctx context.Context, id uuid.UUID,
	version entries.DatasetVersion) (tasks.File, *dataset.Dataset, error) {
	file, err := s.DatasetFile(ctx, id, version)
	if err != nil {
		return tasks.File{}, nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(file)
	if err != nil {
		return tasks.File{}, nil, fmt.Errorf("read a dataset: %w", err)
	}
	set, err := dataset.Read(ctx, version.FileName, content, LayoutOf(version))
	return tasks.File{Name: version.FileName, Content: content}, set, err
}

// Dataset returns the version of a saved dataset to which a reference refers.
func (s *Service) Dataset(ctx context.Context, scope db.Scope, r Reference) (entries.Dataset, error) {
	row, err := s.Entries.Datasets.Get(ctx, scope, r.ID)
	if err := r.offered(row.ArchivedAt, err); err != nil {
		return row, err
	}
	if r.Version != 0 {
		if row.DatasetVersion, err = s.Entries.DatasetVersion(ctx, scope, r.ID, r.Version); err != nil {
			return row, r.offered(nil, err)
		}
	}
	return row, nil
}

// RemoveDataset removes a dataset with its files, or archives it if tasks have used it.
func (s *Service) RemoveDataset(ctx context.Context, scope db.Scope, id uuid.UUID) error {
	isGone, err := s.Entries.Datasets.Remove(ctx, scope, id)
	if isGone {
		if err := s.Files.Delete(context.WithoutCancel(ctx), "datasets/"+id.String()); err != nil {
			s.Log.WarnContext(ctx, "dataset files not removed", "dataset_id", id, "error", err)
		}
	}
	return err
}

// maxSpellings is the maximum number of names that are tried for an agent without a given name.
const maxSpellings = 100

// maxAgentName is the maximum number of characters of a host that are used as an agent's name.
const maxAgentName = 50

// agentName returns the host of an address in the form used for connecting.
func agentName(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "agent"
	}
	name := guard.Host(u.Hostname())
	if u.Port() != "" {
		name = net.JoinHostPort(name, u.Port())
	}
	if len(name) > maxAgentName {
		name = name[:maxAgentName]
	}
	return name
}

// SaveTyped saves the agent whose address was typed into a task, under the name of its host, and returns the agent.
func (s *Service) SaveTyped(ctx context.Context, scope db.Scope, n tasks.New) (entries.Agent, error) {
	a := Agent{Protocol: protocol.Default, URL: n.AgentURL, Headers: maps.Clone(n.Headers), RateLimit: n.RateLimit,
		RetryOn: agent.RetryTyped}
	delete(a.Headers, guard.TicketHeader) // a saved agent is no longer part of the demo
	members := map[string]json.RawMessage{}
	if n.Payload != nil {
		if err := json.Unmarshal(*n.Payload, &members); err != nil {
			return entries.Agent{}, fmt.Errorf("read a task's payload: %w", err)
		}
	}
	if _, hasModel := members["model"]; n.AgentModel != "" && !hasModel {
		model, err := json.Marshal(n.AgentModel)
		if err != nil {
			return entries.Agent{}, err
		}
		members["model"] = model
	}
	if len(members) > 0 {
		payload, err := json.Marshal(members)
		if err != nil {
			return entries.Agent{}, err
		}
		a.ExtraPayload = payload
	}
	host := agentName(n.AgentURL)
	for spelling := 1; ; spelling++ {
		if a.Name = host; spelling > 1 {
			a.Name = fmt.Sprintf("%s (%d)", host, spelling)
		}
		id, err := s.SaveAgent(ctx, scope, uuid.Nil, a)
		if errors.Is(err, entries.ErrNameTaken) && spelling < maxSpellings {
			continue
		}
		if err != nil {
			return entries.Agent{}, err
		}
		return s.Entries.Agents.Get(ctx, scope, id)
	}
}
