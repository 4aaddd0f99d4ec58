package observe_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/event"
	"wending/jobs/agent/observe"
	"wending/jobs/agent/wire"
)

// told collects the events that a watcher reports.
type told []event.Event

func (l *told) Emit(kind event.Type, data event.Data) {
	*l = append(*l, event.Event{Type: kind, Data: data})
}

func watch(t *testing.T, values ...string) told {
	t.Helper()
	var list told
	watcher := observe.New("default", &list, func(text string) string { return strings.ReplaceAll(text, "secret", "***") })
	for _, text := range values {
		v, isJSON := wire.Parse([]byte(text))
		require.True(t, isJSON, text)
		watcher.Value(wire.Event{Value: v})
	}
	return list
}

// Any progress value that an agent sends can be stored, and long names are cut.
func TestHostileValuesAreTamed(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	list := watch(t,
		`{"event":"progress","data":{"preview_url":"https://x/a.png","completed":1,"total":1e-310}}`,
		`{"event":"progress","data":{"percent":"NaN"}}`, `{"event":"progress","data":{"percent":1e999,"message":"m"}}`,
		`{"event":"tool_started","data":{"tool":"`+long+`","asset_type":"`+long+`","provider":"secret"}}`,
		`{"event":"asset","data":{"url":"https://x/`+long+`.png"}}`, `{"event":"asset","data":{"url":"javascript:alert(1)"}}`,
		`{"event":"x","data":{"a":"secret"}}`)
	for _, one := range list {
		_, err := json.Marshal(one.Data)
		require.NoError(t, err)
		require.LessOrEqual(t, len(one.Data.Name)+len(one.Data.Kind), 400)
		require.NotEqual(t, event.Asset, one.Type)
	}
	require.InDelta(t, 100, *list[0].Data.Progress, 0)
	require.Equal(t, event.ImagePreview, list[1].Type)
	require.JSONEq(t, `{"event":"x","data":{"a":"***"}}`, string(list[len(list)-1].Data.Raw))
}

func TestProgressStaysBetween0And100(t *testing.T) {
	t.Parallel()
	for said, want := range map[string]float64{"250": 100, "-3": 0, "40": 40, `"70%"`: 70} {
		list := watch(t, `{"event":"progress","data":{"percent":`+said+`}}`,
			`{"event":"tool_progress","data":{"tool":"draw","progress":`+said+`}}`)
		require.Len(t, list, 2, said)
		for _, one := range list {
			require.InDelta(t, want, *one.Data.Progress, 0, said)
		}
	}
}

// A file that is reported several times, by its address or with the same content, counts as one file.
func TestTheSameFileIsToldOfOnce(t *testing.T) {
	t.Parallel()
	list := watch(t, `{"event":"asset","data":{"b64_json":"AAAA","type":"image"}}`,
		`{"event":"asset","data":{"b64_json":"AAAA","type":"image"}}`,
		`{"event":"asset","data":{"b64_json":"AAAB","type":"image"}}`, `{"event":"asset","data":{"url":"https://x/1.png"}}`,
		`{"event":"asset","data":{"url":"https://x/1.png"}}`)
	require.Len(t, list, 3)
}

// A member named like a video, a sound or, in a job's result, an image, reports a file of that kind, whatever its
// address looks like.
func TestFilmsAndSoundsHaveMembersOfTheirOwn(t *testing.T) {
	t.Parallel()
	list := watch(t, `{"event":"tool_finished","data":{"tool":"speak","output":{"audioUrl":"https://x/a/42"}}}`)
	watcher := observe.New("default", &list, func(text string) string { return text })
	status, isJSON := wire.Parse([]byte(`{"status":"done","result":{"video_url":"https://x/v/42?sign=1"}}`))
	require.True(t, isJSON)
	watcher.Polled("done", status)
	status, isJSON = wire.Parse(
		[]byte(`{"status":"done","image_url":"https://x/preview","result":{"image_url":"https://x/i/42"}}`))
	require.True(t, isJSON)
	watcher.Polled("done", status)
	var found []string
	for _, one := range list {
		if one.Type == event.Asset {
			found = append(found, one.Data.Kind+" "+one.Data.URL)
		}
	}
	require.Equal(t, []string{"audio https://x/a/42", "video https://x/v/42?sign=1", "image https://x/i/42"}, found)
}

// Paths stay within their folder and can be written on any system.
func TestPathsAreCleaned(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"../../etc/passwd": "etc/passwd", "/a//b/./c.png": "a/b/c.png", `..\..\x.png`: "x.png", "a\x00b\n.png": "ab.png",
		"..": "", "": "", "图 片.png": "图 片.png",
		"C:/x?.png": "C/x.png", "\u202egnp.exe": "gnp.exe",
	} {
		require.Equal(t, want, observe.CleanPath(given), "%q", given)
	}
	require.LessOrEqual(t, len(observe.CleanPath(strings.Repeat("长", 500)+".png")), 200)
	require.True(t, strings.HasSuffix(observe.CleanPath(strings.Repeat("长", 500)+".png"), ".png"))
}

// A tool that writes the picture of every step to the same address has a preview for each step. A repeated status adds
// none.
func TestAPreviewThatReusesAnAddressIsToldOfAtEachStep(t *testing.T) {
	t.Parallel()
	step := func(percent string) string {
		return `{"event":"tool_progress","data":{"tool":"draw","id":"d1","progress":` + percent +
			`,"preview_url":"https://x/preview.png"}}`
	}
	var shown []float64
	paths := map[string]bool{}
	for _, one := range watch(t, step("10"), step("50"), step("50"), step("90"), step("100")) {
		if one.Type == event.ImagePreview {
			shown = append(shown, *one.Data.Progress)
			paths[one.Data.Path] = true
		}
	}
	require.Equal(t, []float64{10, 50, 90, 100}, shown)
	require.Len(t, paths, 4)
	list := watch(t, `{"event":"image_preview","data":{"preview_url":"https://x/p.png"}}`,
		`{"event":"image_preview","data":{"preview_url":"https://x/p.png"}}`)
	require.Len(t, list, 2, "each event is a step where none says how far it is")

	var polled told
	watcher := observe.New("default", &polled, func(text string) string { return text })
	for _, message := range []string{"草图", "草图", "上色"} {
		status, isJSON := wire.Parse([]byte(
			`{"status":"running","message":"` + message + `","preview_url":"https://x/p.png"}`))
		require.True(t, isJSON)
		watcher.Polled("running", status)
	}
	previews := 0
	for _, one := range polled {
		if one.Type == event.ImagePreview {
			previews++
		}
	}
	require.Equal(t, 2, previews, "a status that is asked for again and says the same is no other step")
}

// An event about a tool call whose id is known has the name of the tool; one about an unknown call has the id.
func TestACallIsNamedByItsID(t *testing.T) {
	t.Parallel()
	list := watch(t, `{"event":"tool_started","data":{"tool":"画师","id":"c1"}}`,
		`{"event":"tool_progress","data":{"id":"c1","progress":25}}`,
		`{"event":"tool_progress","data":{"id":"c2","progress":25}}`, `{"event":"tool_progress","data":{"progress":25}}`)
	var names []string
	for _, one := range list {
		names = append(names, one.Data.Name)
	}
	require.Equal(t, []string{"画师", "画师", "c2", "tool"}, names)
}
