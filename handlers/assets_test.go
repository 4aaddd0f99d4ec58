package handlers_test

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs"
	"wending/jobs/agent/agenttest"
	"wending/jobs/blob"
	"wending/jobs/secret"
	"wending/views/paths"
)

// produced is an asset as the API returns it.
type produced struct {
	ID          string
	RunID       int64  `json:"run_id"`
	QuestionID  string `json:"question_id"`
	RunIndex    int    `json:"run_index"`
	Path        string
	Type, State string
	MediaType   string `json:"media_type"`
	Size        int
	SHA256      string
	OriginalURL *string `json:"original_url"`
	URL         string
	Error       string
}

func (s *site) assetsOf(t *testing.T, task, query string) []produced {
	t.Helper()
	var list struct {
		Items      []produced
		Pagination struct{ Total int }
	}
	s.get(t, api+"/"+task+"/assets?page_size=100&"+query).into(t, &list)
	require.Len(t, list.Items, list.Pagination.Total)
	return list.Items
}

// awaitAssets waits until no asset of a task waits to be copied.
func (s *site) awaitAssets(t *testing.T, task string) {
	t.Helper()
	dbtest.Await(t, 30*time.Second, "the copies", func() bool {
		var waiting int
		require.NoError(t, s.tables.Get(&waiting,
			`SELECT count(*) FROM assets WHERE task_id = $1 AND state = 'QUEUED' AND attempts < 2`, task))
		return waiting == 0
	})
}

// storedFiles returns the keys of the site's files.
func (s *site) storedFiles(t *testing.T) (keys []string) {
	t.Helper()
	require.NoError(t, s.assets.Walk(t.Context(), func(entry blob.Entry) error {
		if entry.Key != ".wending" {
			keys = append(keys, entry.Key)
		}
		return nil
	}))
	return keys
}

func pngOf(t *testing.T, width, height int, shade uint8) []byte {
	t.Helper()
	canvas := image.NewRGBA(image.Rect(0, 0, width, height))
	for n := range canvas.Pix {
		canvas.Pix[n] = shade
	}
	canvas.Set(1, 1, color.RGBA{255, shade, 0, 255})
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, canvas))
	return file.Bytes()
}

// huge returns a PNG that claims to have the given number of pixels.
func huge(t *testing.T, width, height uint32) []byte {
	t.Helper()
	file := pngOf(t, 3, 3, 9)
	binary.BigEndian.PutUint32(file[16:], width)
	binary.BigEndian.PutUint32(file[20:], height)
	binary.BigEndian.PutUint32(file[29:], crc32.ChecksumIEEE(file[12:29]))
	return file
}

// Anything that an agent claims to have produced is copied with its real type, or the report shows why not; the run
// keeps its answer.
func TestWhatAgentsProduceIsCopied(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	picture := pngOf(t, 900, 600, 40)
	wav := append([]byte("RIFF\x24\x00\x00\x00WAVEfmt "), make([]byte, 64)...)
	var flaky atomic.Int64
	files := http.NewServeMux()
	serveFile := func(path, mediaType string, content []byte) {
		files.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", mediaType)
			_, _ = w.Write(content)
		})
	}
	serveFile("/picture.png", "text/plain", picture) // the content decides, not the type that a server reports
	serveFile("/sound.wav", "audio/wav", wav)
	serveFile("/drawing.svg", "image/svg+xml",
		[]byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`))
	serveFile("/login.png", "image/png", []byte("<!DOCTYPE html><html><body>please log in</body></html>"))
	serveFile("/report.pdf", "application/pdf", []byte("%PDF-1.4\n%âãÏÓ\n1 0 obj\n<<>>\nendobj\ntrailer<<>>\n%%EOF"))
	serveFile("/huge.png", "image/png", huge(t, 1, 1_000_000_000))
	serveFile("/large.png", "image/png", append(pngOf(t, 4, 4, 1), make([]byte, maxAsset)...))
	serveFile("/polyglot.gif", "image/gif",
		append([]byte("GIF89a/*"), []byte("*/=1;alert(1)//<script>alert(1)</script>")...))
	private, second, preview := pngOf(t, 5, 5, 77), pngOf(t, 7, 7, 55),
		base64.StdEncoding.EncodeToString(pngOf(t, 8, 8, 11))
	files.HandleFunc("GET /private.png", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Key") != "headersecret" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		_, _ = w.Write(private)
	})
	files.HandleFunc("GET /hops/{n}", func(w http.ResponseWriter, r *http.Request) {
		next := map[string]string{"3": "/hops/2", "2": "/hops/1", "1": "/hopped.png", "4": "/hops/3"}[r.PathValue("n")]
		http.Redirect(w, r, next, http.StatusFound)
	})
	serveFile("/hopped.png", "image/png", pngOf(t, 6, 6, 99))
	files.HandleFunc("GET /inner", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	})
	files.HandleFunc("GET /flaky.png", func(w http.ResponseWriter, _ *http.Request) {
		if flaky.Add(1) == 1 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		_, _ = w.Write(second)
	})
	var agentURL string
	files.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		var call struct{ Question string }
		_ = json.NewDecoder(r.Body).Decode(&call)
		w.Header().Set("Content-Type", "text/event-stream")
		tell := func(path, kind string, more ...string) {
			say(w, fmt.Sprintf(`{"event":"asset","data":{"type":%q,"url":%q%s}}`, kind, agentURL+path, strings.Join(more, "")))
		}
		answer := "ok"
		switch call.Question {
		case "画":
			say(w, fmt.Sprintf(`{"event":"task_progress","data":{"percent":50,"preview_url":"data:image/png;base64,%s"}}`,
				preview))
			tell("/picture.png", "image", `,"path":"../../etc/画 1.png"`)
			tell("/picture.png", "image") // reported a second time
			answer = "看：\n![图](" + agentURL + "/hopped.png)\n" + agentURL + "/sound.wav\n正文里的 " + agentURL + "/picture.png 不算"
		case "杂":
			tell("/drawing.svg", "image")
			tell("/report.pdf", "file")
			tell("/huge.png", "image")
			tell("/polyglot.gif", "image")
			tell("/private.png", "image")
			tell("/hops/3", "image")
			tell("/flaky.png", "image")
		case "坏":
			tell("/login.png", "image")
			tell("/large.png", "image")
			tell("/none.png", "image")
			tell("/hops/4", "image")
			tell("/inner", "image")
			say(w, `{"event":"asset","data":{"type":"image","url":"file:///etc/passwd"}}`,
				`{"event":"asset","data":{"type":"image","url":"http://169.254.169.254/x.png"}}`)
		}
		say(w, fmt.Sprintf(`{"event":"node_finished","data":{"output":%q}}`, answer))
	})
	agentURL = serve(t, files)
	id := s.create(t, agentURL+"/run", map[string]string{
		"runs_per_item": "2", "agent_api_headers": `{"X-Key": "headersecret"}`, "task_name": "产物",
		"file@q.csv": "question_id,question,standard_answer\na,画,\nb,杂,\nc,坏,\n",
	})
	s.awaitDone(t, id)
	s.awaitAssets(t, id)
	dbtest.Await(t, 20*time.Second, "the second attempt", func() bool {
		return len(s.assetsOf(t, id, "question_id=b")) == 14 && flaky.Load() >= 2
	})
	s.awaitAssets(t, id)

	drawn := s.assetsOf(t, id, "question_id=a")
	require.Len(t, drawn, 6) // from each of two runs: the reported image, the image in the answer, and the sound
	require.Equal(t, "etc/画 1.png", drawn[0].Path)
	require.Equal(t, []string{"STORED", "image/png", "image"}, []string{drawn[0].State, drawn[0].MediaType, drawn[0].Type})
	require.Equal(t, []string{"hopped.png", "sound.wav"}, []string{drawn[1].Path, drawn[2].Path})
	require.Equal(t, "audio", drawn[2].Type)
	require.Len(t, s.assetsOf(t, id, "type=audio"), 2)

	file := s.get(t, drawn[0].URL)
	require.Equal(t, picture, file.body)
	require.Equal(t, "image/png", file.Header.Get("Content-Type"))
	require.Equal(t, "nosniff", file.Header.Get("X-Content-Type-Options"))
	require.Contains(t, file.Header.Get("Content-Disposition"), "inline")
	require.Contains(t, file.Header.Get("Content-Security-Policy"), "sandbox")
	request, err := http.NewRequest(http.MethodGet, s.URL+drawn[0].URL, nil)
	require.NoError(t, err)
	request.Header.Set("Range", "bytes=10-19")
	part := s.do(t, request)
	require.Equal(t, http.StatusPartialContent, part.StatusCode)
	require.Equal(t, picture[10:20], part.body)
	small, err := jpeg.Decode(bytes.NewReader(s.get(t, drawn[0].URL+"/thumbnail").body))
	require.NoError(t, err)
	require.Equal(t, image.Pt(480, 320), small.Bounds().Size())
	require.Equal(t, http.StatusNotFound, s.get(t, drawn[2].URL+"/thumbnail").StatusCode)
	require.Equal(t, http.StatusNotFound, s.get(t, api+"/"+id+"/assets/"+uuid.NewString()).StatusCode)
	other := s.create(t, agentURL, map[string]string{"start": "false"})
	require.Equal(t, http.StatusNotFound, s.get(t, api+"/"+other+"/assets/"+drawn[0].ID).StatusCode)

	mixed := s.assetsOf(t, id, "question_id=b&variant=1")[:7]
	for n, mediaType := range []string{"image/svg+xml", "application/pdf", "image/png", "image/gif", "image/png",
		"image/png", "image/png"} {
		require.Equal(t, "STORED", mixed[n].State, "%+v", mixed[n])
		require.Equal(t, mediaType, mixed[n].MediaType)
	}
	for n := range 2 { // files that a browser might run are never shown
		hostile := s.get(t, mixed[n].URL)
		require.Contains(t, hostile.Header.Get("Content-Disposition"), "attachment")
		require.Equal(t, "application/octet-stream", hostile.Header.Get("Content-Type"))
	}
	require.Equal(t, http.StatusNotFound, s.get(t, mixed[2].URL+"/thumbnail").StatusCode,
		"nobody decodes a thousand million pixels")

	failed := s.assetsOf(t, id, "question_id=c")[:6]
	for n, reason := range []string{"实际是 text/html", "超过 8 MB", "HTTP 404", "重定向超过 3 次", "不允许访问", "不允许访问"} {
		require.Equal(t, "FAILED", failed[n].State, "%+v", failed[n])
		require.Contains(t, failed[n].Error, reason)
	}
	require.NotContains(t, s.told.String(), "headersecret")

	// Two runs produced the same content: it is stored once.
	keys := strings.Join(s.storedFiles(t), "\n")
	require.Equal(t, 1, strings.Count(keys, "/etc/画 1.png"), keys)
	require.Equal(t, 1, strings.Count(keys, "report.pdf"), keys)
	require.Equal(t, 1, strings.Count(keys, "previews/"), keys)

	page := s.get(t, "/tasks/"+id+"/gallery").page(t)
	require.Equal(t, 3, page.Find(".exhibits").Length())
	require.Equal(t, 12, page.Find(".exhibit.is-lost").Length())
	require.Equal(t, 2, page.Find("audio").Length())
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/gallery?type=audio").page(t).Find(".exhibits").Length())
	require.Equal(t, http.StatusSeeOther, s.get(t, "/tasks/"+id+"/gallery?type=x").StatusCode)
	require.Positive(t, s.get(t, "/tasks/"+id+"/results").page(t).Find(".strip-of-files img").Length())

	// A standalone report lists the files, states why one is missing, and contains the images.
	for _, address := range []string{api + "/" + id + "/export?format=html", "/tasks/" + id + "/results/print"} {
		answer := s.get(t, address)
		require.Contains(t, string(answer.body), "img-src data:;")
		document := answer.page(t)
		drawn := document.Find("#q1 .names-of-files")
		require.Equal(t, 2, drawn.Length(), "one list a run")
		require.Contains(t, drawn.First().Text(), "sound.wav")
		source, _ := drawn.Find("img").First().Attr("src")
		encoded, isPicture := strings.CutPrefix(source, "data:image/jpeg;base64,")
		require.True(t, isPicture, "%.100s", source)
		content, err := base64.StdEncoding.DecodeString(encoded)
		require.NoError(t, err)
		small, err := jpeg.Decode(bytes.NewReader(content))
		require.NoError(t, err)
		require.Equal(t, image.Pt(480, 320), small.Bounds().Size())
		require.Contains(t, document.Find("#q3 .names-of-files").Text(), "实际是 text/html")
	}

	csv := string(s.get(t, api+"/"+id+"/export?format=csv").body)
	require.Contains(t, csv, "run_1_assets,run_2_assets\r\n")
	require.Contains(t, csv, "etc/画 1.png; hopped.png; sound.wav")
	var line struct {
		Runs []struct{ Assets []produced }
	}
	first, _, _ := strings.Cut(string(s.get(t, api+"/"+id+"/export?format=jsonl").body), "\n")
	require.NoError(t, json.Unmarshal([]byte(first), &line))
	require.Len(t, line.Runs[0].Assets, 3)

	whole := s.get(t, api+"/"+id+"/archive")
	files2, err := zip.NewReader(bytes.NewReader(whole.body), int64(len(whole.body)))
	require.NoError(t, err)
	contents := map[string][]byte{}
	for _, one := range files2.File {
		content, err := one.Open()
		require.NoError(t, err)
		contents[one.Name], err = io.ReadAll(content)
		require.NoError(t, err)
	}
	require.Equal(t, picture, contents["files/1/variant_1_run_1/etc/画 1.png"])
	require.Contains(t, string(contents["assets.jsonl"]), `"path":"sound.wav"`)
	require.Equal(t, csv, string(contents["report.csv"]))
	for _, name := range []string{"manifest.json", "report.xlsx", "report.jsonl", "report.html"} {
		require.NotEmpty(t, contents[name], name)
	}
	var imported struct {
		TaskID string `json:"task_id"`
	}
	s.importArchive(t, whole.body).into(t, &imported)
	again := s.assetsOf(t, imported.TaskID, "")
	require.Len(t, again, len(s.assetsOf(t, id, "")))
	require.Equal(t, picture, s.get(t, again[0].URL).body)

	for _, one := range []string{id, imported.TaskID} {
		remove, err := http.NewRequest(http.MethodDelete, s.URL+api+"/"+one, nil)
		require.NoError(t, err)
		require.Equal(t, http.StatusNoContent, s.do(t, remove).StatusCode)
	}
	require.Empty(t, s.storedFiles(t))
}

// A file is copied by another process if the one that began to copy it has died, and a run's files are recorded even if
// its events were never stored.
func TestFilesOutliveTheProcessThatLearnedOfThem(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	picture := base64.StdEncoding.EncodeToString(pngOf(t, 9, 9, 3))
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, fmt.Sprintf(`{"event":"asset","data":{"type":"image","b64_json":%q}}`, picture),
			`{"event":"node_finished","data":{"output":"ok"}}`)
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1",
		"file@q.csv": "question_id,question,standard_answer\na,画,\n"})
	s.awaitDone(t, id)
	require.Len(t, s.assetsOf(t, id, ""), 1, "it is there with the run, not a second later")
	s.awaitAssets(t, id)
	stored := s.assetsOf(t, id, "")[0]
	require.Equal(t, "STORED", stored.State)
	require.Nil(t, stored.OriginalURL)

	// The next turn can use a file before it is copied. Its type is not known yet, so it is not displayed.
	waiting :=
		`UPDATE assets SET state = 'QUEUED', storage_key = NULL, thumbnail_key = NULL, content = $2, claimed_until = now() + $3 * interval '1 second' WHERE task_id = $1`
	_, err := s.tables.Exec(waiting, id, pngOf(t, 9, 9, 3), 3600)
	require.NoError(t, err)
	early := s.get(t, stored.URL)
	require.Equal(t, http.StatusOK, early.StatusCode)
	require.Equal(t, pngOf(t, 9, 9, 3), early.body)
	require.Contains(t, early.Header.Get("Content-Disposition"), "attachment")
	require.Equal(t, http.StatusNotFound, s.get(t, stored.URL+"/thumbnail").StatusCode)

	// The state that a process leaves behind when it dies: claimed, and never settled.
	require.NoError(t, s.assets.Delete(t.Context(), id))
	_, err = s.tables.Exec(waiting, id, pngOf(t, 9, 9, 3), 1)
	require.NoError(t, err)
	dbtest.Await(t, 20*time.Second, "another attempt", func() bool { return s.assetsOf(t, id, "")[0].State == "STORED" })
	require.Equal(t, pngOf(t, 9, 9, 3), s.get(t, stored.URL).body)
}

// A later turn of a conversation names a file of an earlier turn, and the agent receives the file's address.
func TestALaterTurnRefersToAFileOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var url string
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		if call.Question == "画" {
			say(w, fmt.Sprintf(`{"event":"asset","data":{"type":"image","path":"images/logo.png","url":%q}}`, url+"/logo.png"))
		}
		say(w, `{"event":"node_finished","data":{"output":"ok"}}`)
	})
	url = fake.URL
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1",
		"file@q.csv": "question_id,question,standard_answer,series,turn\na,画,,s,1\nb,把 {{asset:images/logo.png}} 改成 {{ " +
			"asset:none.png }},,s,2\n"})
	s.awaitDone(t, id)
	asked := ""
	for _, call := range fake.Calls() {
		if strings.HasPrefix(call.Question, "把") {
			asked = call.Question
		}
	}
	require.Equal(t, "把 "+url+"/logo.png 改成 {{ asset:none.png }}", asked)
}

// A file that came inline is offered to the agent at an address of this site that needs no account, and that nobody can
// change: requests with wrong, changed or expired tickets are refused and learn nothing about the file.
func TestAgentsFetchFilesWithATicket(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	s.startWorker(t, jobs.WorkerConfig{Lanes: 2, AssetURL: func(taskID, assetID uuid.UUID, until time.Time) string {
		path := paths.File(taskID, assetID)
		return s.URL + path + "?ticket=" + sealer.Ticket(path, until)
	}})
	picture := pngOf(t, 9, 9, 3)
	var fetched atomic.Value
	address := make(chan string, 1)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		if call.Question == "画" {
			say(w, fmt.Sprintf(`{"event":"asset","data":{"type":"image","path":"logo.png","b64_json":"%s"}}`,
				base64.StdEncoding.EncodeToString(picture)))
		} else {
			address <- call.Question
			answer, err := http.Get(call.Question)
			if err == nil {
				content, _ := io.ReadAll(answer.Body)
				_ = answer.Body.Close()
				fetched.Store(content)
			}
		}
		say(w, `{"event":"node_finished","data":{"output":"ok"}}`)
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1", "timeout_seconds": "60",
		"file@q.csv": "question_id,question,standard_answer,series,turn\na,画,,s,1\nb,{{asset:logo.png}},,s,2\n"})
	s.awaitDone(t, id)
	given := <-address
	require.Equal(t, picture, fetched.Load())
	path, ticket, _ := strings.Cut(strings.TrimPrefix(given, s.URL), "?ticket=")
	require.Regexp(t, "^/files/"+id+"/", path)

	again := s.get(t, path+"?ticket="+ticket)
	require.Equal(t, http.StatusOK, again.StatusCode)
	require.Equal(t, "nosniff", again.Header.Get("X-Content-Type-Options"))
	require.Contains(t, again.Header.Get("Content-Security-Policy"), "sandbox")
	asset := path[strings.LastIndex(path, "/")+1:]
	foreign := paths.File(uuid.MustParse(id), uuid.New())
	changed := []byte(ticket)
	changed[3] ^= 1
	for name, wrong := range map[string]string{
		"no ticket":           path,
		"an empty ticket":     path + "?ticket=",
		"half a ticket":       path + "?ticket=" + ticket[:40],
		"a changed ticket":    path + "?ticket=" + string(changed),
		"no base64":           path + "?ticket=%00%ff",
		"an expired ticket":   path + "?ticket=" + sealer.Ticket(path, time.Now()),
		"another file":        foreign + "?ticket=" + ticket,
		"another task":        paths.File(uuid.New(), uuid.MustParse(asset)) + "?ticket=" + ticket,
		"no file":             "/files/" + id + "/x?ticket=" + ticket,
		"a ticket for a page": path + "?ticket=" + sealer.Ticket("/tasks/"+id, time.Now().Add(time.Hour)),
	} {
		refused := s.get(t, wrong)
		require.Equal(t, http.StatusForbidden, refused.StatusCode, name)
		require.NotContains(t, string(refused.body), "logo", name)
	}
	require.Equal(t, http.StatusNotFound,
		s.get(t, foreign+"?ticket="+sealer.Ticket(foreign, time.Now().Add(time.Hour))).StatusCode)
}

// Answers with the same text but different images do not count as equal.
func TestEqualTextsBesideDifferentPicturesAreNotEqual(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	same, others := pngOf(t, 8, 8, 7), [][]byte{pngOf(t, 8, 8, 0), pngOf(t, 8, 8, 1)}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		picture := same
		if call.Question == "变" {
			picture = others[call.IdempotencyKey[len(call.IdempotencyKey)-1]%2]
		}
		say(w, fmt.Sprintf(`{"event":"asset","data":{"type":"image","filename":"a.png","b64_json":"%s"}}`,
			base64.StdEncoding.EncodeToString(picture)),
			`{"event":"node_finished","data":{"output":"画好了"}}`)
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "4",
		"file@q.csv": "question,standard_answer\n变,\n不变,\n"})
	s.awaitDone(t, id)
	s.awaitAssets(t, id)
	for _, view := range []string{"columns", "merged"} {
		page := s.get(t, "/tasks/"+id+"/results?view="+view).page(t)
		require.Equal(t, "文字相同，图片 2 种", page.Find(".result").Eq(0).Find(".verdict .level").Text(), view)
		require.Equal(t, "逐字相同", page.Find(".result").Eq(1).Find(".verdict .level").Text(), view)
	}
	require.Contains(t, s.get(t, "/tasks/"+id+"/results?view=columns").page(t).Find(".result").Eq(0).Find(
		".verdict").Text(), "1 种回答")
}
