package crew

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
)

const (
	// flushEvery is the interval at which events are stored.
	flushEvery = time.Second
	// atOnce and bytesAtOnce limit what one transaction stores: the number of calls, and the bytes of their events.
	atOnce      = 500
	bytesAtOnce = 4 << 20
	// bytesInHand is the size of a call's waiting events above which they are flushed early.
	bytesInHand = 512 << 10
	// maxEnded is how many calls that have ended may wait to be stored while the database is unavailable; older ones
	// are dropped.
	maxEnded = 20_000
	// longCall is the duration above which a call is listed as in flight.
	longCall = time.Second
)

// EventStore is the part of the store that a Scribe needs.
type EventStore interface {
	Append(ctx context.Context, entries []engine.JournalEntry) error
}

// Scribe records the events of one process. Calls never wait for it: events are kept in memory and stored once a
// second, so a crash loses at most the last second of events, and never a result.
type Scribe struct {
	store EventStore
	log   *slog.Logger

	mu    sync.Mutex
	open  map[*Call]bool
	ended []*Call
	lost  int // how many calls were dropped since the last warning

	// early requests a flush before it is due, because a call has many waiting events.
	early chan struct{}
	// inline is how many bytes of inline files wait in memory.
	inline atomic.Int64
}

// NewScribe returns a scribe, whose Run stores its events.
func NewScribe(store EventStore, log *slog.Logger) *Scribe {
	return &Scribe{store: store, log: log, open: map[*Call]bool{}, early: make(chan struct{}, 1)}
}

// Open starts recording the events of a unit's question; before is the call of the previous turn under the same
// claim, or nil. The caller closes the call.
func (s *Scribe) Open(taskID uuid.UUID, unit db.Unit, before *Call) *Call {
	call := newCall(s, taskID, unit, before)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[call] = true
	return call
}

// close adds a call that has ended to the calls that wait for their last flush.
func (s *Scribe) close(call *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open[call] {
		return
	}
	delete(s.open, call)
	s.ended = append(s.ended, call)
	if surplus := len(s.ended) - maxEnded; surplus > 0 {
		s.ended, s.lost = slices.Delete(s.ended, 0, surplus), s.lost+surplus
	}
}

// Run stores events until ctx ends, and once more after that.
func (s *Scribe) Run(ctx context.Context) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
			defer cancel()
			s.flush(last)
			return
		case <-tick.C:
			s.flush(ctx)
		case <-s.early:
			s.flush(ctx)
		}
	}
}

// flush stores the waiting events.
func (s *Scribe) flush(ctx context.Context) {
	s.mu.Lock()
	ended, lost := s.ended, s.lost
	s.ended, s.lost = nil, 0
	calls := slices.Clone(ended)
	for call := range s.open {
		calls = append(calls, call)
	}
	s.mu.Unlock()
	if lost > 0 {
		s.log.WarnContext(ctx, "events could not be stored for too long, dropped", "calls", lost)
	}
	var batch []*Call
	var entries []engine.JournalEntry
	bytes := 0
	for n, call := range calls {
		if entry, hasNews := call.take(n >= len(ended)); hasNews {
			batch, entries = append(batch, call), append(entries, entry)
			for _, one := range entry.Events {
				bytes += len(one.Data.Text)
			}
		}
		if len(batch) == atOnce || bytes >= bytesAtOnce || n == len(calls)-1 && len(batch) > 0 {
			s.append(ctx, batch, entries)
			batch, entries, bytes = nil, nil, 0
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, call := range ended {
		if call.waits() {
			s.ended = append(s.ended, call)
		} else {
			call.release()
		}
	}
}

// append stores entries; entries that the database cannot store now are kept for the next flush.
func (s *Scribe) append(ctx context.Context, calls []*Call, entries []engine.JournalEntry) {
	err := s.store.Append(ctx, entries)
	switch {
	case err == nil:
		for n, call := range calls {
			call.stored(entries[n])
		}
		return
	// A task was deleted, or the database refuses a call: the calls are stored one by one.
	case !errors.Is(err, db.ErrUnavailable) && ctx.Err() == nil && len(calls) > 1:
		for n := range calls {
			s.append(ctx, calls[n:n+1], entries[n:n+1])
		}
		return
	case !errors.Is(err, db.ErrUnavailable) && ctx.Err() == nil:
		if !errors.Is(err, db.ErrGone) {
			s.log.ErrorContext(ctx, "events of a call cannot be stored, dropping them", "unit_id", entries[0].UnitID,
				"error", err)
		}
		calls[0].giveUp()
		return
	}
	if !errors.Is(ctx.Err(), context.Canceled) { // otherwise Run is ending, and its last flush stores the entries
		s.log.WarnContext(ctx, "events not stored, will retry", "calls", len(calls), "error", err)
	}
	for n, call := range calls {
		call.putBack(entries[n])
	}
}

// Call records the events of one question, over all its attempts. It implements event.Sink.
type Call struct {
	scribe *Scribe
	entry  engine.JournalEntry // identifies the call, but holds no events
	log    *event.Log
	// toolsBefore is the number of tool calls in the earlier turns.
	toolsBefore int

	mu sync.Mutex
	// tools are the tool calls so far; changed marks those with changes that are not stored yet.
	tools   []engine.Tool
	changed map[int]bool
	// progress is the last stored progress in per cent; nil means that none is stored.
	progress *int
	// assets are the files and previews that the agent has reported, and assetsStored is how many of them are stored.
	// paths are their names and the names of earlier turns' files.
	assets       []engine.AnnouncedAsset
	paths        map[string]bool
	assetsStored int
	target       int
	// attempt is the number of the call's attempt, from 1: the files of the last attempt belong to the run.
	attempt int
	// inline is how many bytes of inline files the call has reported.
	inline int
	// unstored is the data that could not be stored at the last flush.
	unstored *engine.JournalEntry
	// isRefused reports that the database rejects the call's events, so that its files are stored only with its
	// result.
	isRefused bool
}

// maxTools is the maximum number of tool calls kept for one question.
const maxTools = 500

func newCall(s *Scribe, taskID uuid.UUID, unit db.Unit, before *Call) *Call {
	call := &Call{
		scribe: s, entry: engine.JournalEntry{UnitID: unit.ID, Epoch: unit.Epoch, ItemID: unit.Item.ID, TaskID: taskID},
		changed: map[int]bool{}, paths: map[string]bool{}, target: unit.Target, attempt: 1,
	}
	after := 0
	if before != nil {
		after, call.toolsBefore, call.paths = before.log.Seq(), before.toolsBefore+len(before.tools), before.paths
	}
	call.log = event.NewLog(after)
	call.log.Begin()
	return call
}

// Emit implements event.Sink.
func (c *Call) Emit(kind event.Type, data event.Data) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if kind == event.Asset || kind == event.ImagePreview {
		c.noteAsset(kind, &data)
	}
	at := c.log.Emit(kind, data)
	if c.log.Waiting() > bytesInHand {
		select {
		case c.scribe.early <- struct{}{}:
		default: // a flush has been requested already
		}
	}
	switch kind {
	case event.Tool:
		c.noteTool(at, data)
	case event.ProgressUpdate:
		c.noteProgress(data)
	case event.TaskCompleted, event.ErrorOccurred:
		c.endTools(at, kind, data)
	}
}

// ItemID returns the id of the question.
func (c *Call) ItemID() int64 { return c.entry.ItemID }

// Again begins another attempt.
func (c *Call) Again() {
	c.log.Again()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.attempt++
}

// LongestSilence returns the longest time of the last attempt, in milliseconds, during which no data arrived.
func (c *Call) LongestSilence() int { return c.log.LongestSilence() }

// Close ends the call, which must not be used any more.
func (c *Call) Close() { c.scribe.close(c) }

// maxContent is how many bytes of inline files one call may report, and maxInline is how many bytes may wait in memory
// for all calls.
const (
	maxContent = 64 << 20
	maxInline  = 256 << 20
)

// noteAsset gives a file or a preview its id, and a path that no other file of the unit has. Inline content is kept
// here until it is stored.
func (c *Call) noteAsset(kind event.Type, data *event.Data) {
	size := len(data.Content)
	if c.inline += size; size > 0 && (c.inline > maxContent || c.scribe.inline.Load()+int64(size) > maxInline) {
		data.Content, data.Message = nil, "The file was not kept: too much came inline"
		return
	}
	c.scribe.inline.Add(int64(size))
	data.Path = c.freePath(data.Path)
	id := uuid.NewSHA1(c.entry.TaskID, fmt.Appendf(nil, "%d %d %d %s", c.entry.UnitID, c.entry.Epoch, c.attempt,
		data.Path))
	data.AssetID = &id
	c.assets = append(c.assets, engine.AnnouncedAsset{
		ID: id, Number: len(c.assets) + 1, Attempt: c.attempt, Path: data.Path, Kind: data.Kind,
		IsPreview: kind == event.ImagePreview, URL: data.URL, Content: data.Content,
	})
	data.Content = nil
}

// freePath returns a path like the given one that no other file of the attempt has, and that is not a folder of
// another file.
func (c *Call) freePath(given string) string {
	taken := func(name string) bool { return c.paths[strconv.Itoa(c.attempt)+" "+name] }
	for folder := path.Dir(given); folder != "." && folder != "/"; folder = path.Dir(folder) {
		if taken(folder) {
			given = strings.ReplaceAll(given, "/", "-")
			break
		}
	}
	extension := path.Ext(given)
	free := given
	for n := 2; taken(free) || taken(free+"/"); n++ {
		free = strings.TrimSuffix(given, extension) + "-" + strconv.Itoa(n) + extension
	}
	c.paths[strconv.Itoa(c.attempt)+" "+free] = true
	for folder := path.Dir(free); folder != "." && folder != "/"; folder = path.Dir(folder) {
		c.paths[strconv.Itoa(c.attempt)+" "+folder+"/"] = true
	}
	return free
}

// Assets returns the files of the last attempt, without previews, that may not have been stored yet: the transaction
// that stores the call's result must also store them.
func (c *Call) Assets() []engine.AnnouncedAsset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(c.assets[c.assetsStored:]), func(one engine.AnnouncedAsset) bool {
		return one.IsPreview || one.Attempt != c.attempt
	})
}

// toolOf returns the index of the tool call that data is about: the one with its id, or else the last one with its
// name that has not ended. An unknown call is added; if there are too many, the result is -1.
func (c *Call) toolOf(at int, data event.Data) int {
	for n := len(c.tools) - 1; n >= 0; n-- {
		known := c.tools[n]
		if data.ID != "" && known.ToolID == data.ID || data.ID == "" && known.Tool == data.Name && known.EndedMS == nil {
			return n
		}
	}
	n := len(c.tools)
	if n >= maxTools {
		return -1
	}
	c.tools = append(c.tools, engine.Tool{Number: c.toolsBefore + n + 1, Tool: data.Name, ToolID: data.ID,
		Status: event.Started, StartedMS: at})
	return n
}

// noteTool records an event of a tool call.
func (c *Call) noteTool(at int, data event.Data) {
	n := c.toolOf(at, data)
	if n < 0 || c.tools[n].EndedMS != nil {
		return
	}
	tool := &c.tools[n]
	if data.Provider != "" {
		tool.Provider = data.Provider
	}
	if data.Kind != "" {
		tool.AssetType = data.Kind
	}
	if len(data.Input) > 0 {
		tool.Input = &data.Input
	}
	if len(data.Output) > 0 {
		tool.Output = &data.Output
	}
	if data.Progress != nil {
		tool.Progress = data.Progress
	}
	switch {
	case data.Status == event.Failed:
		endTool(tool, at, data.Message)
	case data.Status == event.Completed && tool.Progress != nil && *tool.Progress < 100 && data.Progress != nil:
		endTool(tool, at, unfinished)
	case data.Status == event.Completed:
		tool.Status, tool.EndedMS = event.Completed, &at
	case data.Status == event.Generating || tool.Progress != nil:
		tool.Status = event.Generating
	}
	c.changed[n] = true
}

// unfinished is the failure of a tool whose progress did not reach its end (spec/003).
const unfinished = "Progress did not reach 100%"

// noteProgress records progress for the most recent tool call, unless it has ended or the event names another call.
func (c *Call) noteProgress(data event.Data) {
	if data.Progress == nil || len(c.tools) == 0 {
		return
	}
	n := len(c.tools) - 1
	if tool := &c.tools[n]; tool.EndedMS == nil && (data.ID == "" || data.ID == tool.ToolID) {
		tool.Progress, tool.Status = data.Progress, event.Generating
		c.changed[n] = true
	}
}

// endTools ends the tool calls that the agent left open.
func (c *Call) endTools(at int, kind event.Type, data event.Data) {
	for n := range c.tools {
		tool := &c.tools[n]
		if tool.EndedMS != nil {
			continue
		}
		switch {
		case kind == event.ErrorOccurred:
			endTool(tool, at, data.Message)
		case tool.Progress != nil && *tool.Progress < 100:
			endTool(tool, at, unfinished)
		default:
			tool.Status, tool.EndedMS = event.Completed, &at
		}
		c.changed[n] = true
	}
}

func endTool(tool *engine.Tool, at int, reason string) {
	tool.Status, tool.EndedMS, tool.Error = event.Failed, &at, &reason
}

// take returns what is to be stored since the last take. A call that has been open for longCall is marked as in flight.
func (c *Call) take(isOpen bool) (entry engine.JournalEntry, hasNews bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unstored != nil {
		entry, c.unstored = *c.unstored, nil
		return entry, true
	}
	entry = c.entry
	entry.Events = c.log.Take()
	for n := range c.tools {
		if c.changed[n] {
			entry.Tools = append(entry.Tools, c.tools[n])
		}
	}
	clear(c.changed)
	for _, one := range c.assets[c.assetsStored:] {
		if c.isRefused {
			break
		}
		entry.Assets = append(entry.Assets, engine.FoundAsset{
			AssetSource: engine.AssetSource{TaskID: entry.TaskID, UnitID: entry.UnitID, Epoch: entry.Epoch,
				ItemID: entry.ItemID, Target: c.target}, AnnouncedAsset: one,
		})
	}
	if reached, since := c.log.Progress(); isOpen && time.Since(since) >= longCall {
		percent := engine.NotReported
		if reached != nil {
			percent = int(*reached)
		}
		if c.progress == nil || *c.progress != percent {
			entry.Progress, c.progress = &percent, &percent
		}
	}
	return entry, len(entry.Events) > 0 || len(entry.Tools) > 0 || len(entry.Assets) > 0 || entry.Progress != nil
}

// stored records that the data of the last take is stored, so inline files need not be kept any longer.
func (c *Call) stored(entry engine.JournalEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range entry.Assets {
		c.scribe.inline.Add(-int64(len(c.assets[c.assetsStored+n].Content)))
		c.assets[c.assetsStored+n].Content = nil
	}
	c.assetsStored += len(entry.Assets)
}

// giveUp records that the database rejects the call's events. They are not stored later, and files, except previews,
// are kept for the transaction that stores the call's result.
func (c *Call) giveUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isRefused = true
}

// waits reports whether some of the call's data has yet to be stored.
func (c *Call) waits() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unstored != nil || !c.isRefused && (c.log.Waits() || len(c.changed) > 0 || c.assetsStored < len(c.assets))
}

// release drops the inline files of a call that has ended and is stored.
func (c *Call) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for n := range c.assets {
		c.scribe.inline.Add(-int64(len(c.assets[n].Content)))
		c.assets[n].Content = nil
	}
}

// putBack puts back data that could not be stored, or whose storage was not confirmed: it is stored again
// unchanged.
func (c *Call) putBack(entry engine.JournalEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.unstored = &entry
}

// EventPruner removes events whose retention time has passed; one process does so for all.
type EventPruner struct {
	Journal engine.Journal
	// Keep is how long events are kept after their task's end.
	Keep time.Duration
}

// Prune removes events whose retention time has passed.
func (p EventPruner) Prune(ctx context.Context) error {
	for {
		if found, err := p.Journal.Prune(ctx, p.Keep); err != nil || !found {
			return err
		}
	}
}
