package main

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// paints reports whether a question asks for an image.
func paints(question string) bool { return strings.HasPrefix(question, "画") }

// The size of the painter's image in pixels, and the time between two of its steps.
const (
	pictureWidth, pictureHeight = 640, 400
	paintEvery                  = 220 * time.Millisecond
)

// draw sends the events of a painting tool's call: its progress, previews and the image. If fails is true, the call
// fails at 60 %. draw returns false if the call failed or the client has disconnected.
func draw(ctx context.Context, event func(string, map[string]any), picture func(int) string, question string,
	fails bool) bool {
	input := map[string]any{"prompt": question}
	event("tool_started", map[string]any{"tool": "painter", "id": "p1", "provider": "demo",
		"asset_type": "image", "input": input})
	for percent := 0; percent < 100; percent += 5 {
		step := map[string]any{"percent": percent, "message": fmt.Sprintf("绘制中（%d/20）", percent/5+1)}
		if percent%20 == 0 && percent > 0 {
			step["preview_url"] = picture(percent)
		}
		event("task_progress", step)
		if fails && percent == 60 {
			event("llm_error", map[string]any{"error_message": "颜料用完了"})
			return false
		}
		if !sleep(ctx, paintEvery) {
			return false
		}
	}
	output := map[string]any{"url": picture(100)}
	event("tool_finished", map[string]any{"tool": "painter", "id": "p1", "percent": 100, "output": output})
	return true
}

// paint answers like agents that work for a long time: with stages, a tool's progress, previews, and an image at the
// end. One call in twelve fails while it is drawing.
func paint(w http.ResponseWriter, r *http.Request, question string) {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(question))
	seed := sum.Sum64()%1000*10 + uint64(rand.IntN(5))
	picture := func(percent int) string {
		return fmt.Sprintf("http://%s/pictures/%d/%d.png", r.Host, seed, percent)
	}
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	event := func(name string, data map[string]any) {
		line, _ := json.Marshal(map[string]any{"event": name, "data": data})
		_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
		_ = http.NewResponseController(w).Flush()
	}
	stage := func(name string, work func(context.Context) bool) bool {
		event("node_started", map[string]any{"node_id": name, "title": name})
		if !work(r.Context()) {
			return false
		}
		event("node_completed", map[string]any{"node_id": name, "title": name})
		return true
	}
	say := func(text string) {
		for _, word := range text {
			event("llm_chunk", map[string]any{"content": string(word)})
			_ = sleep(r.Context(), 20*time.Millisecond)
		}
	}
	fails := rand.IntN(12) == 0
	answer := "画好了：" + strings.TrimPrefix(question, "画") + "。"
	if !stage("构思", func(ctx context.Context) bool {
		event("reasoning_chunk", map[string]any{"content": "先定构图：" + question + "，地平线放在下三分之一处。"})
		return sleep(ctx, 600*time.Millisecond)
	}) {
		return
	}
	drawn := stage("绘制", func(ctx context.Context) bool { return draw(ctx, event, picture, question, fails) })
	if !drawn {
		return
	}
	path := "pictures/" + strconv.FormatUint(seed, 10) + ".png"
	event("asset", map[string]any{"type": "image", "url": picture(100), "path": path})
	say(answer)
	event("node_finished", map[string]any{"output": answer})
}

// servePicture draws the image for a seed, up to the requested step: hills under a sun, or parts of them.
func servePicture(w http.ResponseWriter, r *http.Request) {
	seed, err := strconv.ParseUint(r.PathValue("seed"), 10, 32)
	percent, isNumber := strings.CutSuffix(r.PathValue("name"), ".png")
	share, err2 := strconv.Atoi(percent)
	if err != nil || err2 != nil || !isNumber || share < 0 || share > 100 {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "image/png")
	_ = png.Encode(w, drawPicture(seed, share))
}

func drawPicture(seed uint64, share int) image.Image {
	random := rand.New(rand.NewPCG(seed, 7))
	hue := random.Float64()
	sunX, sunY, sunR := 120+random.Float64()*400, 60+random.Float64()*100, 30+random.Float64()*30
	canvas := image.NewRGBA(image.Rect(0, 0, pictureWidth, pictureHeight))
	type hill struct{ height, wave, shift float64 }
	hills := make([]hill, 4)
	for n := range hills {
		hills[n] = hill{210 + float64(n)*45, 60 + random.Float64()*80, random.Float64() * 6}
	}
	for y := range pictureHeight {
		for x := range pictureWidth {
			depth := float64(y) / pictureHeight
			shade := tint(hue, 0.35, 0.95-0.35*depth)
			if math.Hypot(float64(x)-sunX, float64(y)-sunY) < sunR {
				shade = tint(hue+0.08, 0.25, 1)
			}
			for n, h := range hills {
				if float64(y) > h.height+22*math.Sin(float64(x)/h.wave+h.shift)+8*math.Sin(float64(x)/17+h.shift) {
					shade = tint(hue+0.5, 0.45, 0.7-0.14*float64(n))
				}
			}
			if y*100 > share*pictureHeight { // not painted yet
				grey := uint8(225 + 20*((x/20+y/20)%2))
				shade = color.RGBA{grey, grey, grey, 255}
			}
			canvas.SetRGBA(x, y, shade)
		}
	}
	return canvas
}

// tint returns the colour with the given hue (in turns), saturation and value.
func tint(hue, saturation, value float64) color.RGBA {
	channel := func(n float64) uint8 {
		k := math.Mod(n+hue*6, 6)
		return uint8(255 * (value - value*saturation*max(0, min(k, 4-k, 1))))
	}
	return color.RGBA{channel(5), channel(3), channel(1), 255}
}
