package replay

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/views/paths"
	"wending/views/replay"
	"wending/views/text"
)

// The content types of requests of OTLP over HTTP.
const (
	typeProtobuf = "application/x-protobuf"
	typeJSON     = "application/json"
)

// spansTime is the maximum time that a request with spans may take to arrive and be stored.
const spansTime = time.Minute

// RegisterSpans registers the endpoint that receives agents' spans by OTLP over HTTP
// (https://opentelemetry.io/docs/specs/otlp), if agents can report them.
func RegisterSpans(group *echo.Group, config Config) {
	if config.HasSpans {
		h := &handler{config}
		group.POST(paths.Traces, h.takeSpans)
	}
}

// takeSpans stores the spans that belong to calls made by this project's tasks. Spans of other traces, and those beyond
// a limit, are only counted in the response, because an error would make exporters send them again.
func (h *handler) takeSpans(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), spansTime)
	defer cancel()
	leave, err := request.From(ctx).Gates.Spans.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	contentType, _, err := mime.ParseMediaType(c.Request().Header.Get(echo.HeaderContentType))
	if err != nil || contentType != typeProtobuf && contentType != typeJSON {
		return echo.NewHTTPError(http.StatusUnsupportedMediaType, "neither "+typeProtobuf+" nor "+typeJSON)
	}
	body, err := spansBody(c)
	if err != nil {
		return err
	}
	batch, err := readSpans(body, contentType == typeJSON, time.Now())
	if err != nil {
		return echo.NewHTTPError(http.StatusBadRequest, err.Error()).SetInternal(err)
	}
	unknown, full, err := h.keepSpans(ctx, batch)
	if err != nil {
		return err
	}
	var answer collectorpb.ExportTraceServiceResponse
	var why []string
	for _, one := range []struct {
		count int
		what  string
	}{
		{unknown, "belong to no call that this project's tasks made, or to one that shares its trace with others"},
		{full, fmt.Sprintf("exceed the %d spans or %d bytes of a run", event.MaxSpans, event.MaxSpansBytes)},
		{batch.unreadable, "are damaged, too large or nested too deeply"},
		{batch.beyond, fmt.Sprintf("exceed the %d spans of a request", maxSpansInRequest)},
	} {
		if one.count > 0 {
			why = append(why, fmt.Sprintf("%d %s", one.count, one.what))
		}
	}
	if len(why) > 0 {
		answer.PartialSuccess = &collectorpb.ExportTracePartialSuccess{
			RejectedSpans: int64(unknown + full + batch.unreadable + batch.beyond), ErrorMessage: strings.Join(why, "; "),
		}
	}
	encoded, err := proto.Marshal(&answer)
	if contentType == typeJSON {
		encoded, err = protojson.Marshal(&answer)
	}
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, contentType, encoded)
}

// spansBody returns the body of a request, decompressed. It must arrive within spansTime and not exceed maxSpansBody.
func spansBody(c echo.Context) ([]byte, error) {
	_ = http.NewResponseController(c.Response()).SetReadDeadline(time.Now().Add(spansTime)) // may be unsupported
	body := http.MaxBytesReader(c.Response(), c.Request().Body, maxSpansBody)
	var from io.Reader = body
	switch encoding := c.Request().Header.Get(echo.HeaderContentEncoding); encoding {
	case "", "identity":
	case "gzip":
		unzipped, err := gzip.NewReader(body)
		if err != nil {
			return nil, echo.NewHTTPError(http.StatusBadRequest, "not gzip").SetInternal(err)
		}
		from = unzipped
	default:
		return nil, echo.NewHTTPError(http.StatusUnsupportedMediaType, "unknown Content-Encoding")
	}
	content, err := io.ReadAll(io.LimitReader(from, maxSpansBody+1))
	if errors.As(err, new(*http.MaxBytesError)) || len(content) > maxSpansBody {
		return nil, request.NewFault(request.CodeRequestTooLarge).WithCause(err)
	}
	if err != nil {
		return nil, echo.NewHTTPError(http.StatusBadRequest, "the body cannot be read").SetInternal(err)
	}
	return content, nil
}

// keepSpans stores the spans that belong to calls within the request's scope. It returns how many spans belong to no
// such call, and for how many there was no room.
func (h *handler) keepSpans(ctx context.Context, batch *spanBatch) (unknown, full int, err error) {
	scope := request.ScopeOf(ctx)
	traces := slices.Sorted(maps.Keys(batch.traces))
	calls, err := h.journal().TracedCalls(ctx, scope, traces)
	if err != nil {
		return 0, 0, err
	}
	read := map[uuid.UUID]db.Task{}
	for _, trace := range traces {
		spans := batch.traces[trace]
		call, isKnown := calls[trace]
		if !isKnown {
			unknown += len(spans)
			continue
		}
		task, isRead := read[call.TaskID]
		if !isRead {
			if task, err = h.Store.Task(ctx, scope, call.TaskID); err != nil {
				return 0, 0, err
			}
			read[call.TaskID] = task
		}
		mask, err := h.Mask(task, call.Variant)
		if err != nil {
			return 0, 0, err
		}
		for n := range spans {
			spans[n] = finished(spans[n], mask)
		}
		rejected, err := h.journal().AddSpans(ctx, call, spans)
		if err != nil {
			return 0, 0, err
		}
		full += rejected
	}
	return unknown, full, nil
}

// awaitSpans is how long after a call's end its page still looks for new spans, because exporters send them late.
const awaitSpans = time.Minute

// addSteps adds the steps that agents reported as spans to the tracks of a view.
func (h *handler) addSteps(ctx context.Context, view *replay.View) error {
	var units []int64
	for _, track := range view.Tracks {
		units = append(units, track.UnitID)
	}
	found, err := h.journal().Spans(ctx, view.Task.ID, units)
	if err != nil {
		return err
	}
	for n := range view.Tracks {
		track := &view.Tracks[n]
		track.Steps = event.Tree(found[track.UnitID][track.ItemID])
		if view.Unit == nil { // up to twenty runs side by side
			shorten(track.Steps)
		}
		track.AwaitsSteps = h.HasSpans && view.Unit != nil &&
			(track.Run == nil || time.Since(track.Run.CreatedAt) < awaitSpans)
	}
	return nil
}

// shownBeside is the maximum number of characters of a step's input and output if runs are shown side by side.
const shownBeside = 400

func shorten(steps []event.Step) {
	for n := range steps {
		one, isCut := &steps[n], false
		one.Input, isCut = text.Head(one.Input, shownBeside)
		one.IsInputCut = one.IsInputCut || isCut
		one.Output, isCut = text.Head(one.Output, shownBeside)
		one.IsOutputCut = one.IsOutputCut || isCut
	}
}

// showSteps sends the steps of a call, a part of its unit's page; if there are no new ones, the response is 204.
func (h *handler) showSteps(c echo.Context) error {
	var asked struct {
		ItemID int64 `query:"item"`
		Count  int   `query:"count"`
	}
	if err := (&echo.DefaultBinder{}).BindQueryParams(c, &asked); err != nil {
		return request.NewFault(request.CodeRunNotFound)
	}
	view, err := h.stepsView(c, asked.ItemID)
	if err != nil {
		return err
	}
	if !request.IsFragment(c.Request()) {
		return c.Redirect(http.StatusSeeOther, paths.Unit(view.Task.ID, view.Unit.ID))
	}
	track := view.Tracks[0]
	if track.AwaitsSteps && len(track.Steps) == asked.Count {
		return c.NoContent(http.StatusNoContent) // leaves open what the reader has opened
	}
	return pages.Render(c, http.StatusOK, replay.Steps(view, track))
}

// stepsView returns the view with the steps of one item's call in the unit whose id is in the path.
func (h *handler) stepsView(c echo.Context, itemID int64) (view replay.View, err error) {
	task, unit, err := h.unit(c)
	if err != nil {
		return view, err
	}
	ctx := c.Request().Context()
	runs, err := h.journal().OutcomesOf(ctx, task.ID, unit.ID)
	if err != nil {
		return view, err
	}
	track := replay.Track{UnitID: unit.ID, ItemID: itemID}
	for _, run := range runs {
		if run.ItemID == itemID {
			track.Run = &run
		}
	}
	view = replay.View{Task: task, Unit: &unit, Tracks: []replay.Track{track}}
	return view, h.addSteps(ctx, &view)
}

// runSpan is a span as the API returns it.
type runSpan struct {
	SpanID       string         `json:"span_id" example:"00f067aa0ba902b7"`
	ParentSpanID *string        `json:"parent_span_id" doc:"null if the agent named none; the span with this id may be missing" example:"53995c3f42cd8ad8"`
	Name         string         `json:"name" example:"chat qwen-max"`
	Kind         event.SpanKind `json:"kind" values:"span kinds" example:"model"`
	AtMS         *float64       `json:"at_ms" doc:"Milliseconds since the run's first span; null if the agent's clock differs from this server's by more than a day" example:"1250"`
	DurationMS   *float64       `json:"duration_ms" example:"812.5"`
	Model        *string        `json:"model" example:"qwen-max"`
	InputTokens  *int64         `json:"input_tokens" example:"1200"`
	OutputTokens *int64         `json:"output_tokens" example:"85"`
	TotalTokens  *int64         `json:"total_tokens" example:"1285"`
	Input        *string        `json:"input" doc:"At most 8,000 characters, in many cases JSON"`
	Output       *string        `json:"output" doc:"At most 8,000 characters, in many cases JSON"`
	IsInputCut   bool           `json:"is_input_cut" doc:"Whether the input's end is missing"`
	IsOutputCut  bool           `json:"is_output_cut" doc:"Whether the output's end is missing"`
	IsFailed     bool           `json:"is_failed"`
	Error        *string        `json:"error" doc:"Why the step failed; null if the agent gave no reason"`
}

func newRunSpan(s event.Step) runSpan {
	orNull := func(value string) *string {
		if value == "" {
			return nil
		}
		return &value
	}
	told := runSpan{
		SpanID: s.ID, ParentSpanID: orNull(s.Parent), Name: s.Name, Kind: s.Kind, Model: orNull(s.Model),
		InputTokens: s.InputTokens, OutputTokens: s.OutputTokens, TotalTokens: s.TotalTokens, Input: orNull(s.Input),
		Output: orNull(s.Output), IsInputCut: s.IsInputCut, IsOutputCut: s.IsOutputCut, IsFailed: s.IsFailed,
		Error: orNull(s.Error),
	}
	told.AtMS, told.DurationMS = millis(s.AtNS), millis(s.DurationNS)
	return told
}

func millis(ns *int64) *float64 {
	if ns == nil {
		return nil
	}
	ms := float64(*ns) / 1e6
	return &ms
}

// spansOf returns the spans of a run: each before its children, as in their tree.
func (h *handler) spansOf(ctx context.Context, taskID uuid.UUID, run engine.Outcome) ([]runSpan, error) {
	found, err := h.journal().Spans(ctx, taskID, []int64{run.UnitID})
	told := []runSpan{}
	for _, one := range event.Tree(found[run.UnitID][run.ItemID]) {
		told = append(told, newRunSpan(one))
	}
	return told, err
}
