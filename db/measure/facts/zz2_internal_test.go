package facts

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"sort"
	"strings"
	"testing"
)

type zzRow struct {
	f     []float64
	label bool
	id    string
	text  string
	w     float64
}

func TestZL(t *testing.T) {
	var rows []zzRow
	trueTotal, trueHave := 0, 0
	for _, name := range strings.Split(os.Getenv("CORPUS"), ",") {
		f, _ := os.Open("testdata/" + name + ".jsonl")
		sc := bufio.NewScanner(f)
		sc.Buffer(nil, 1<<20)
		for sc.Scan() {
			var b zzBase
			_ = json.Unmarshal(sc.Bytes(), &b)
			if b.HeldOut {
				continue
			}
			texts := map[string]string{"text": b.Text, "paraphrase1": b.Paraphrase1, "paraphrase2": b.Paraphrase2}
			names := []string{"text", "paraphrase1"}
			if b.Paraphrase2 != "" {
				names = append(names, "paraphrase2")
			}
			run := func(a, o string, at, n int, truth map[int]bool, id string) {
				zzHook2 = func(c *comparison, pairs []pair, list []evidence) {
					found := false
					for nn, r := range pairs {
						x := &c.a.Claims[r.i]
						ff := make([]float64, evidences)
						for k := range ff {
							ff[k] = float64(list[nn][k])
						}
						s, e := int(c.a.Start[x.From]), int(c.a.End[x.To-1])
						label := at >= 0 && s < at+n && at < e && truth[r.j]
						found = found || label
						w := 1.0
						if at >= 0 && !label {
							w = 0.15 // seen in every edit of the pair
						}
						rows = append(rows, zzRow{ff, label, id, c.a.Slice(x.Span) + " @" + c.a.about(x) + " ~ " + c.b.Slice(c.b.Claims[r.j].Span) + " @" + c.b.about(&c.b.Claims[r.j]), w})
					}
					if found {
						trueHave++
					}
				}
				if len(truth) > 0 {
					trueTotal++
				}
				compare(read(a), read(o))
				zzHook2 = nil
			}
			for k, x := range names {
				for _, y := range names[k+1:] {
					run(texts[x], texts[y], -1, 0, nil, b.ID+"/"+x+"~"+y)
				}
			}
			for n, e := range b.Edits {
				k := 0
				for i, x := range names {
					if x == e.In {
						k = i
					}
				}
				other := texts[names[(k+1)%len(names)]]
				orig := texts[e.In]
				at := strings.Index(orig, e.Old)
				edited := strings.Replace(orig, e.Old, e.New, 1)
				o := compare(read(orig), read(other))
				c := read(edited)
				same := map[string]int{}
				for i := range c.Claims {
					s, en := int(c.Start[c.Claims[i].From]), int(c.End[c.Claims[i].To-1])
					if s < at+len(e.New) && at < en {
						same[fmt.Sprint(c.Claims[i].Class, c.Claims[i].Key)]++
					}
				}
				truth := map[int]bool{}
				for _, l := range o.links {
					x := &o.a.Claims[l.i]
					s, en := int(o.a.Start[x.From]), int(o.a.End[x.To-1])
					if !l.isCut && s < at+len(e.Old) && at < en && x.Class != 25 && same[fmt.Sprint(x.Class, x.Key)] == 0 {
						truth[l.j] = true
					}
				}
				run(edited, other, at, len(e.New), truth, fmt.Sprintf("%s/edit%d", b.ID, n+1))
			}
		}
	}
	fmt.Println("rows", len(rows), "true edits with counterpart", trueTotal, "candidates", trueHave)
	nf := len(rows[0].f)
	w := make([]float64, nf)
	skip := map[string]bool{}
	for _, s := range strings.Split(os.Getenv("SKIP"), ",") {
		skip[s] = true
	}
	for it := 0; it < 3000; it++ {
		g := make([]float64, nf)
		tot := 0.0
		for _, r := range rows {
			z := 0.0
			for k, v := range r.f {
				z += w[k] * v
			}
			p := 1 / (1 + math.Exp(-z))
			y := 0.0
			if r.label {
				y = 1
			}
			for k, v := range r.f {
				g[k] += r.w * (y - p) * v
			}
			tot += r.w
		}
		for k := range w {
			if skip[fmt.Sprint(k)] {
				continue
			}
			w[k] += 4 * (g[k]/tot - 0.0003*w[k])
		}
	}
	names := strings.Fields("always similar touch companions rivals elsewhere repetition otherUnit otherClass uniqueness distance oneRange bareDigits resemblance calculation")
	for k, v := range w {
		fmt.Printf("%2d %-8s %6.2f\n", k, names[k], v)
	}
	score := func(r zzRow) float64 {
		z := 0.0
		for k, v := range r.f {
			z += w[k] * v
		}
		return z
	}
	sort.Slice(rows, func(i, j int) bool { return score(rows[i]) > score(rows[j]) })
	// greedy curve: true found vs distinct paraphrase pairs with a false one
	ft, ff := map[string]bool{}, map[string]bool{}
	next := 0
	steps := []float64{4, 3, 2, 1.5, 1, 0.5, 0, -0.5, -1, -1.5, -2}
	for _, r := range rows {
		for next < len(steps) && score(r) < steps[next] {
			fmt.Printf("at %.1f: found %d of %d, false pairs %d\n", steps[next], len(ft), trueTotal, len(ff))
			next++
		}
		if r.label {
			ft[r.id] = true
		} else if !strings.Contains(r.id, "edit") {
			ff[r.id] = true
		}
	}
	shown := 0
	for _, r := range rows {
		if !r.label && !strings.Contains(r.id, "edit") && shown < 25 {
			fmt.Printf("FALSE %.2f %s %s\n", score(r), r.id, r.text)
			shown++
		}
	}
}
