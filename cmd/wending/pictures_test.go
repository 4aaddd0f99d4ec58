package main

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/views/text"
)

// pictures is the folder of the guide's pictures, with a subfolder for each language.
const pictures = "../../static/assets/help"

// settled is true once a page is complete: its images are loaded, a replay is ready to be played, and no transition
// is running.
const settled = `document.readyState === "complete" && !document.querySelector(".player:not(.is-ready)")
	&& [...document.images].every(image => image.complete && image.naturalWidth > 0 || image.loading === "lazy")
	&& document.getAnimations().every(a => a.playState !== "running" || a.effect.getComputedTiming().iterations === Infinity)`

// maxPicture is the maximum size of a picture in bytes, because all of them are compiled into the program.
const maxPicture = 120 << 10

// The guide's pictures are taken from the demo: `make pictures` writes them.
func TestPictures(t *testing.T) {
	if os.Getenv("WENDING_PICTURES") != "write" {
		t.Skip("make pictures runs it")
	}
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"16", "--rate-limit-per-agent", "unlimited")
	demo := startDemo(t, program, "/demo")
	comparison := startDemo(t, program, "/demo/comparison")
	b := openBrowser(t, program.url)
	// so that bars are drawn at their final length
	still := []*emulation.MediaFeature{{Name: "prefers-reduced-motion", Value: "reduce"}}
	b.do(chromedp.EmulateViewport(1180, 780), emulation.SetEmulatedMedia().WithFeatures(still))
	for _, lang := range text.Languages {
		b.open("/tasks")
		b.evaluate(fmt.Sprintf("document.cookie = 'lang=%s; path=/'", lang), nil)
		for name, path := range map[string]string{
			"answers":  "/tasks/" + demo + "/results?view=merged",
			"task":     "/tasks/" + demo,
			"variants": "/tasks/" + comparison + "/variants",
			"replay":   "/tasks/" + demo + "/replay/1",
		} {
			b.open(path)
			var shot []byte
			b.do(chromedp.Poll(settled, nil), chromedp.CaptureScreenshot(&shot))
			file := filepath.Join(pictures, lang, name+".png")
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			small := withPalette(t, shot)
			require.Less(t, len(small), maxPicture, file)
			require.NoError(t, os.WriteFile(file, small, 0o644))
		}
	}
}

// startDemo starts a demo task and waits until it has ended.
func startDemo(t *testing.T, program *process, path string) (id string) {
	t.Helper()
	answer, err := http.Post(program.url+path, "", nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode)
	id = filepath.Base(answer.Request.URL.Path)
	dbtest.Await(t, 5*time.Minute, "the end of "+path, func() bool {
		return task(t, program.url, id).Status == "SUCCEEDED"
	})
	return id
}

// withPalette encodes an image with its 256 most frequent colours, because pages use few colours.
func withPalette(t *testing.T, shot []byte) []byte {
	t.Helper()
	picture, err := png.Decode(bytes.NewReader(shot))
	require.NoError(t, err)
	bounds := picture.Bounds()
	counts := map[color.NRGBA]int{}
	at := func(x, y int) color.NRGBA {
		c := color.NRGBAModel.Convert(picture.At(x, y)).(color.NRGBA)
		return color.NRGBA{c.R &^ 3, c.G &^ 3, c.B &^ 3, 255} // indistinguishable shades count as one
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			counts[at(x, y)]++
		}
	}
	var colours color.Palette
	for colour := range counts {
		colours = append(colours, colour)
	}
	slices.SortFunc(colours, func(a, b color.Color) int { return counts[b.(color.NRGBA)] - counts[a.(color.NRGBA)] })
	colours = colours[:min(256, len(colours))]
	small := image.NewPaletted(bounds, colours)
	nearest := map[color.NRGBA]uint8{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			colour := at(x, y)
			if _, isKnown := nearest[colour]; !isKnown {
				nearest[colour] = uint8(colours.Index(colour))
			}
			small.SetColorIndex(x, y, nearest[colour])
		}
	}
	var file bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&file, small))
	return file.Bytes()
}
