package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/db/upkeep"
	"wending/jobs/blob"
	"wending/jobs/courier"
	"wending/jobs/dataset"
)

// Limits on the events, tools, files and samples of an archive, in addition to the limits on its parts.
const (
	// maxEventsOfLine is the maximum number of events in a line. maxEventsOfRun and maxBytesOfRun limit the number of a
	// run's events and the size of their texts, because pages read all events of a run at once.
	maxEventsOfLine = 10_000
	maxEventsOfRun  = 50_000
	maxBytesOfRun   = 40 << 20
	// bytesOfLine is the number of bytes of text after which a new line is begun when an archive is written.
	bytesOfLine    = 2 << 20
	maxEvent       = 24 << 20
	maxToolsOfRun  = 1000
	maxAssetsOfRun = 2000
	// maxName is the maximum length, in characters, of short texts such as names, ids and error messages.
	maxName = 2000
	// maxRaw is a limit in bytes that leaves room for the escape sequences in stored events.
	maxRaw    = 8 * event.MaxRaw
	maxURL    = 16 << 10
	maxSample = 1000
	// maxThumbnails is the maximum total time for making thumbnails of imported pictures; later pictures get none.
	maxThumbnails = time.Minute
)

// eventLine is a line of the part eventsName: consecutive events of a run.
type eventLine struct {
	upkeep.RunPlace
	Events list[oneEvent] `json:"events"`
}

type oneEvent event.Event

func (oneEvent) listName() string { return "events" }
func (oneEvent) listLimit() int   { return maxEventsOfLine }

// toolLine is a line of the part toolsName: a tool call of a run.
type toolLine upkeep.ArchivedTool

// assetLine is a line of the part assetsName: a file in an answer.
type assetLine struct {
	upkeep.ArchivedAsset
	CreatedAt *moment `json:"created_at"`
	StoredAt  *moment `json:"stored_at"`
	// File is the name of the part with the copy; empty if there is none.
	File string `json:"file,omitempty"`
}

// sampleLine is a line of the part samplesName: a random sample for reviewers.
type sampleLine struct {
	Seed         int64            `json:"seed"`
	IsStratified bool             `json:"is_stratified"`
	CreatedAt    *moment          `json:"created_at"`
	Runs         list[sampledRun] `json:"runs"`
}

type sampledRun upkeep.RunPlace

func (sampledRun) listName() string { return "runs" }
func (sampledRun) listLimit() int   { return maxSample }

// writeCalls writes the events and the tool calls of a task's current runs, its samples and its pairs.
func (a *Archiver) writeCalls(ctx context.Context, task db.Task, files *members) error {
	stored := upkeep.NewArchives(a.Store)
	events := lineWriter{members: files, name: eventsName}
	err := stored.EachPart(ctx, task.ID, func(part upkeep.ArchivedPart) error {
		all, err := event.Unpack(part.Packed)
		if err != nil {
			return err
		}
		for len(all) > 0 {
			line := eventLine{RunPlace: part.RunPlace}
			for size := 0; len(all) > 0 && len(line.Events) < maxEventsOfLine && size < bytesOfLine; all = all[1:] {
				line.Events = append(line.Events, oneEvent(all[0]))
				size += sizeOfEvent(all[0].Data)
			}
			if err := events.write(line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	tools := lineWriter{members: files, name: toolsName}
	if err := stored.EachTool(ctx, task.ID, tools.writeRaw); err != nil {
		return err
	}
	samples := lineWriter{members: files, name: samplesName}
	if err := stored.EachSample(ctx, task.ID, samples.writeRaw); err != nil {
		return err
	}
	pairs := lineWriter{members: files, name: pairsName}
	return stored.EachPair(ctx, task.ID, pairs.writeRaw)
}

func sizeOfEvent(d event.Data) int {
	return len(d.Text) + len(d.Name) + len(d.ID) + len(d.Provider) + len(d.Message) + len(d.URL) + len(d.Path) +
		len(d.Input) + len(d.Output) + len(d.Raw)
}

// writeAssets writes the files that agents produced in the current runs, storing equal content only once, and a list
// of these files. A copy that has vanished is listed without its file.
func (a *Archiver) writeAssets(ctx context.Context, task db.Task, files *members) error {
	names := map[string]string{} // maps the keys of the copies written so far to the names of their parts
	var list []assetLine
	err := upkeep.NewArchives(a.Store).EachAsset(ctx, task.ID, func(one upkeep.ArchivedAsset) error {
		list = append(list, assetLine{ArchivedAsset: one, CreatedAt: momentOf(one.CreatedAt),
			StoredAt: momentOf(one.StoredAt)})
		return nil
	})
	if err != nil {
		return err
	}
	for n := range list {
		one := &list[n]
		if one.StorageKey == nil {
			continue
		}
		name, isWritten := names[*one.StorageKey]
		if !isWritten {
			name = fmt.Sprintf("%s%d/variant_%d_run_%d/%s", filesFolder, one.QuestionNumber, one.Variant, one.RunIndex,
				one.Path)
			if _, isTaken := files.parts[name]; isTaken { // by a file of an earlier attempt
				name = fmt.Sprintf("%s%d/variant_%d_run_%d/attempt_%d/%s", filesFolder, one.QuestionNumber, one.Variant,
					one.RunIndex, one.Attempt, one.Path)
			}
			isThere, err := a.writeAsset(ctx, *one.StorageKey, name, files)
			if err != nil {
				return err
			}
			if !isThere {
				name = ""
			}
			names[*one.StorageKey] = name
		}
		one.File = name
	}
	lines := lineWriter{members: files, name: assetsName}
	for _, line := range list {
		if err := lines.write(line); err != nil {
			return err
		}
	}
	return nil
}

// writeAsset writes one copy; isThere is false if the copy has vanished.
func (a *Archiver) writeAsset(ctx context.Context, key, name string, files *members) (isThere bool, err error) {
	stored, err := a.Files.Open(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer stored.Close() //nolint:errcheck // only read
	file, err := files.add(name)
	if err == nil {
		_, err = io.Copy(file, stored)
	}
	return err == nil, err
}

// eachLine calls yield with each line of a part, if the archive has the part.
func (r *reader) eachLine(name string, maxLine int, yield func(line []byte) error) error {
	if !r.has(name) {
		return nil
	}
	l, err := r.lines(name, maxLists, maxLine)
	if err != nil {
		return err
	}
	defer l.close()
	for {
		line, err := l.next()
		if err != nil || line == nil {
			return err
		}
		if err := yield(line); err != nil {
			return l.at(err)
		}
	}
}

// calls reads the events and the tool calls of a task's runs, after the runs themselves have been read.
type calls struct {
	runs *runs
	// events and tools read their parts; nil means that the archive has none.
	events, tools *lines
	// place is the run to which the last line belongs; done contains the runs before it. last is the number of that run's
	// last event or tool call, count the number of its events or tool calls so far, and size their total size in bytes.
	place             upkeep.RunPlace
	done              map[upkeep.RunPlace]bool
	last, count, size int
}

func (r *reader) calls(of *runs) (c *calls, err error) {
	c = &calls{runs: of, done: map[upkeep.RunPlace]bool{}}
	if r.has(eventsName) {
		if c.events, err = r.lines(eventsName, maxRuns, maxEvent); err != nil {
			return nil, err
		}
	}
	if r.has(toolsName) {
		if c.tools, err = r.lines(toolsName, maxLists, maxLine); err != nil {
			c.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *calls) close() {
	for _, one := range []*lines{c.events, c.tools} {
		if one != nil {
			one.close()
		}
	}
}

// enter checks that a line belongs to a run of the archive, and that the lines of each run are consecutive.
func (c *calls) enter(check *checker, place upkeep.RunPlace) {
	c.runs.checkRead(check, place)
	if check.wrong != nil || place == c.place {
		return
	}
	check.require(!c.done[place], "run_index", wantOnce)
	c.done[c.place] = true
	c.place, c.last, c.count, c.size = place, 0, 0, 0
}

// nextPart returns the next events of a run and their packed size in bytes; nil after the last ones.
func (c *calls) nextPart() (*upkeep.ArchivedPart, int, error) {
	if c.events == nil {
		return nil, 0, nil
	}
	text, err := c.events.next()
	if err != nil || text == nil {
		c.place, c.done = upkeep.RunPlace{}, map[upkeep.RunPlace]bool{} // for the tool calls, which are read next
		return nil, 0, err
	}
	var line eventLine
	if err := decode(text, &line); err != nil {
		return nil, 0, c.events.at(err)
	}
	check := &checker{}
	c.enter(check, line.RunPlace)
	check.require(len(line.Events) > 0, "events", wantRequired)
	events := make([]event.Event, len(line.Events))
	for n := range line.Events {
		events[n] = event.Event(line.Events[n])
		member := fmt.Sprintf("events[%d].", n+1)
		least, most := c.last+1, maxInt
		if n > 0 {
			most = least // events of a part are numbered without gaps
		}
		check.number(member+"seq", &events[n].Seq, least, most)
		checkEvent(check, member, events[n])
		c.last, c.count, c.size = events[n].Seq, c.count+1, c.size+sizeOfEvent(events[n].Data)
		if check.wrong != nil {
			break
		}
	}
	check.require(c.count <= maxEventsOfRun, "events", wantList, "Max", maxEventsOfRun)
	check.require(c.size <= maxBytesOfRun, "events", wantStorable, "Max", maxBytesOfRun)
	if err := check.err(); err != nil {
		return nil, 0, c.events.at(err)
	}
	for n := range events {
		if id := events[n].Data.AssetID; id != nil {
			own := c.runs.assetID(*id)
			events[n].Data.AssetID = &own
		}
	}
	packed, err := event.Pack(events)
	return &upkeep.ArchivedPart{RunPlace: line.RunPlace, FirstSeq: events[0].Seq, Packed: packed}, len(packed), err
}

func checkEvent(c *checker, member string, e event.Event) {
	c.number(member+"at_ms", &e.AtMS, 0, maxInt)
	choose(c, member+"type", e.Type, event.Types...)
	data := member + "data."
	d := e.Data
	for name, value := range map[string]string{"name": d.Name, "id": d.ID, "provider": d.Provider, "code": d.Code,
		"media_type": d.MediaType, "kind": d.Kind, "path": d.Path} {
		c.require(utf8.RuneCountInString(value) <= maxName, data+name, wantText, "Max", maxName)
	}
	c.require(utf8.RuneCountInString(d.Message) <= maxMessage, data+"message", wantText, "Max", maxMessage)
	c.require(utf8.RuneCountInString(d.URL) <= maxURL, data+"url", wantText, "Max", maxURL)
	if d.Status != "" {
		choose(c, data+"status", d.Status, event.ToolStates...)
	}
	c.progress(data+"progress", d.Progress)
	c.number(data+"attempt", &d.Attempt, 0, maxAttempts)
	c.number(data+"wait_ms", &d.WaitMS, 0, maxInt)
	c.number(data+"dropped", &d.Dropped, 0, maxInt)
	if e.Type == event.Asset || e.Type == event.ImagePreview {
		choose(c, data+"kind", d.Kind, event.Kinds...)
		c.require(d.Path == "" || courier.IsPath(d.Path), data+"path", wantPath)
	}
	for name, value := range map[string]json.RawMessage{"input": d.Input, "output": d.Output, "raw": d.Raw} {
		c.require(len(value) <= maxRaw, data+name, wantText, "Max", maxRaw)
	}
}

func (c *checker) progress(member string, percent *float64) {
	if percent != nil {
		c.require(*percent >= 0 && *percent <= 100, member, wantNumber, "Min", 0, "Max", 100)
	}
}

// nextTool returns the next tool call and the length of its line in bytes; nil after the last one.
func (c *calls) nextTool() (*upkeep.ArchivedTool, int, error) {
	if c.tools == nil {
		return nil, 0, nil
	}
	text, err := c.tools.next()
	if err != nil || text == nil {
		return nil, 0, err
	}
	var line toolLine
	if err := decode(text, &line); err != nil {
		return nil, 0, c.tools.at(err)
	}
	check := &checker{}
	c.enter(check, line.RunPlace)
	check.number("number", &line.Number, c.last+1, maxInt)
	c.last, c.count = line.Number, c.count+1
	check.require(c.count <= maxToolsOfRun, "number", wantNumber, "Min", 1, "Max", maxToolsOfRun)
	check.text("tool", &line.Tool, maxName)
	check.text("tool_id", &line.ToolID, maxName)
	check.text("provider", &line.Provider, maxName)
	check.text("asset_type", &line.AssetType, maxName)
	choose(check, "status", line.Status, event.ToolStates...)
	check.progress("progress", line.Progress)
	check.require(len(line.Input) <= maxRaw, "input", wantText, "Max", maxRaw)
	check.require(len(line.Output) <= maxRaw, "output", wantText, "Max", maxRaw)
	check.text("error", line.Error, maxMessage)
	check.number("started_ms", &line.StartedMS, 0, maxInt)
	check.number("ended_ms", line.EndedMS, 0, maxInt)
	one := upkeep.ArchivedTool(line)
	return &one, len(text), c.tools.at(check.err())
}

// assetID returns a new id for a file of the archive: its original id may already be in use in this installation.
func (r *runs) assetID(id uuid.UUID) uuid.UUID { return uuid.NewSHA1(r.task.Task.ID, id[:]) }

// assetOfLine is a file with the number of its line in the part assetsName.
type assetOfLine struct {
	upkeep.ArchivedAsset
	line int
}

// filesOf returns the files of runs that have been read, or an *Error if a file has no run.
func (r *runs) filesOf(assets []assetOfLine) ([]upkeep.ArchivedAsset, error) {
	all := make([]upkeep.ArchivedAsset, len(assets))
	for n, one := range assets {
		c := &checker{}
		if r.checkRead(c, one.RunPlace); c.wrong != nil {
			c.wrong.File, c.wrong.Line = assetsName, one.line
			return nil, c.wrong
		}
		all[n] = one.ArchivedAsset
	}
	return all, nil
}

// assets reads the list of files, and stores their copies. The caller removes the copies if the task is not stored.
func (a *Archiver) assets(ctx context.Context, r *reader, of *runs) (all []assetOfLine, err error) {
	copies := copies{keeper: a.keeper(), reader: r, kept: map[string]engine.AssetCopy{}}
	seen, ofRun := map[uuid.UUID]bool{}, map[upkeep.RunPlace]int{}
	err = r.eachLine(assetsName, maxLine, func(text []byte) error {
		var line assetLine
		if err := decode(text, &line); err != nil {
			return err
		}
		c := &checker{}
		of.checkKnown(c, line.RunPlace)
		c.require(!seen[line.ID], "id", wantOnce)
		seen[line.ID] = true
		ofRun[line.RunPlace]++
		c.require(ofRun[line.RunPlace] <= maxAssetsOfRun && len(all) < maxParts, "number", wantNumber, "Min", 1, "Max",
			maxAssetsOfRun)
		line.check(c)
		if err := c.err(); err != nil {
			return err
		}
		one := line.ArchivedAsset
		one.ID, one.CreatedAt, one.StoredAt = of.assetID(line.ID), line.CreatedAt.time(), line.StoredAt.time()
		if err := copies.keep(ctx, of.task.Task.ID, line.File, &one); err != nil {
			return err
		}
		all = append(all, assetOfLine{one, len(all) + 1})
		return nil
	})
	if err != nil {
		return nil, err
	}
	for name := range r.files {
		if _, isUsed := copies.kept[name]; strings.HasPrefix(name, filesFolder) && !isUsed {
			return nil, &Error{File: shorten(name), Problem: ProblemUnknown}
		}
	}
	return all, nil
}

func (l *assetLine) check(c *checker) {
	c.number("number", &l.Number, 1, maxInt)
	c.number("attempt", &l.Attempt, 1, maxAttempts)
	c.require(courier.IsPath(l.Path), "path", wantPath)
	choose(c, "type", l.Type, event.Kinds...)
	if l.OriginalURL != nil {
		c.text("original_url", l.OriginalURL, maxURL)
		address, err := url.Parse(*l.OriginalURL)
		c.require(err == nil && address.Scheme != "", "original_url", wantAddress)
	}
	choose(c, "state", engine.AssetState(l.State), engine.AssetStates...)
	if l.Size != nil {
		c.require(*l.Size >= 0 && *l.Size <= math.MaxInt64/2, "size", wantNumber, "Min", 0, "Max", maxFiles)
	}
	if l.SHA256 != nil {
		sum, err := hex.DecodeString(*l.SHA256)
		c.require(err == nil && len(sum) == 32, "sha256", wantBytes)
	}
	c.text("media_type", l.MediaType, maxCode*2)
	c.text("error", l.Error, maxName)
	c.time("created_at", l.CreatedAt)
	c.time("stored_at", l.StoredAt)
	c.require(l.File == "" || strings.HasPrefix(l.File, filesFolder) && engine.AssetState(l.State) == engine.AssetStored,
		"file", wantKnown)
}

func (a *Archiver) keeper() courier.Keeper {
	return courier.Keeper{Files: a.Files, MaxBytes: a.MaxFile, Log: a.Log}
}

// copies stores the copies of files in an archive, each only once. kept maps the names of their parts to what was
// stored.
type copies struct {
	keeper courier.Keeper
	reader *reader
	kept   map[string]engine.AssetCopy
	// drawing is the CPU time that storing the copies and making thumbnails has taken.
	drawing time.Duration
}

// keep stores the copy of a file, if the archive has one, and sets the file's type and size to those of the copy.
func (k *copies) keep(ctx context.Context, taskID uuid.UUID, part string, one *upkeep.ArchivedAsset) error {
	if part == "" {
		if engine.AssetState(one.State) != engine.AssetFailed {
			missing := courier.NotArchived()
			one.Error = &missing
		}
		one.State, one.StoredAt, one.MediaType, one.SHA256 = string(engine.AssetFailed), nil, nil, nil
		return nil
	}
	copied, isKept := k.kept[part]
	if !isKept {
		file, err := k.reader.open(part, maxFiles)
		if err != nil {
			return err
		}
		defer file.Close() //nolint:errcheck // only read
		began := dataset.ProcessorTime()
		asset := engine.Asset{ID: one.ID, TaskID: taskID, Path: one.Path, Kind: one.Type}
		copied, err = k.keeper.Keep(ctx, asset, len(k.kept)+1, file, k.drawing < maxThumbnails)
		took := dataset.ProcessorTime() - began
		k.drawing, k.reader.began = k.drawing+took, k.reader.began+took // thumbnails do not count as reading
		if courier.IsRefused(err) {
			return valueError("file", wantFile)
		}
		if err != nil {
			return err
		}
		k.kept[part] = copied
	}
	if copied.Kind != one.Type && one.Type != event.File {
		return valueError("type", wantFile)
	}
	sum := hex.EncodeToString(copied.SHA256)
	one.Type, one.MediaType, one.Size, one.SHA256, one.Error = copied.Kind, &copied.MediaType, &copied.Size, &sum, nil
	one.StorageKey = &copied.StorageKey
	if copied.ThumbnailKey != "" {
		one.ThumbnailKey = &copied.ThumbnailKey
	}
	return nil
}

// samples reads the samples of a task.
func (r *reader) samples(of *runs) (all []upkeep.ArchivedSample, err error) {
	seen := map[string]bool{} // a question is in at most one sample
	err = r.eachLine(samplesName, maxLine, func(text []byte) error {
		var line sampleLine
		if err := decode(text, &line); err != nil {
			return err
		}
		c := &checker{}
		c.time("created_at", line.CreatedAt)
		c.require(len(line.Runs) > 0, "runs", wantRequired)
		one := upkeep.ArchivedSample{Seed: line.Seed, IsStratified: line.IsStratified, CreatedAt: line.CreatedAt.time()}
		for n, run := range line.Runs {
			of.checkKnown(c, upkeep.RunPlace(run))
			c.require(!seen[run.QuestionID], fmt.Sprintf("runs[%d].question_id", n+1), wantOnce)
			seen[run.QuestionID] = true
			one.Runs = append(one.Runs, upkeep.RunPlace(run))
		}
		all = append(all, one)
		return c.err()
	})
	return all, err
}
