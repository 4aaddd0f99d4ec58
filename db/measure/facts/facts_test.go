package facts_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db/measure/facts"
)

// pair is two answers, labelled by whether they agree.
type pair struct {
	id, a, b, kind, source string
	isSame                 bool
	from, to               int // the bytes of a that were changed
}

type change struct{ In, Old, New, Kind string }

type base struct {
	ID, Text, Paraphrase1, Paraphrase2 string
	Edits, Decoys                      []change
	HeldOut                            bool `json:"held_out"`
}

func (b base) text(name string) string {
	return map[string]string{"text": b.Text, "paraphrase1": b.Paraphrase1, "paraphrase2": b.Paraphrase2}[name]
}

func (b base) names() []string {
	if b.Paraphrase2 == "" {
		return []string{"text", "paraphrase1"}
	}
	return []string{"text", "paraphrase1", "paraphrase2"}
}

// edited returns the answer to which an edit belongs, with the edit applied.
func (b base) edited(c change) string { return strings.Replace(b.text(c.In), c.Old, c.New, 1) }

// pairs expands a base as testdata/README.md describes.
func (b base) pairs() []pair {
	var all []pair
	names := b.names()
	next := map[string]string{}
	for i, name := range names {
		next[name] = names[(i+1)%len(names)]
		for _, other := range names[i+1:] {
			all = append(all, pair{id: b.ID + "/" + name + "~" + other, a: b.text(name), b: b.text(other), kind: "paraphrase",
				source: "X~Y", isSame: true})
		}
	}
	for n, c := range b.Decoys {
		changed := b.edited(c)
		for _, other := range names {
			p := pair{id: fmt.Sprintf("%s/decoy%d:%s~%s", b.ID, n+1, c.In, other), a: changed, b: b.text(other),
				kind: "decoy+paraphrase", source: "X~Y", isSame: true}
			if other == c.In {
				p.kind, p.source = "decoy", "X~X"
			}
			all = append(all, p)
		}
	}
	for n, c := range b.Edits {
		changed := b.edited(c)
		from := strings.Index(b.text(c.In), c.Old)
		for _, source := range []string{"X~X", "X~Y"} {
			other := c.In
			if source == "X~Y" {
				other = next[c.In]
			}
			all = append(all, pair{
				id: fmt.Sprintf("%s/edit%d:%s~%s", b.ID, n+1, c.In, other), a: changed, b: b.text(other),
				kind: c.Kind, source: source, from: from, to: from + len(c.New),
			})
		}
	}
	return all
}

func readLines[T any](t testing.TB, name string) []T {
	t.Helper()
	file, err := os.Open(filepath.Join("testdata", name))
	require.NoError(t, err)
	defer func() { require.NoError(t, file.Close()) }()
	var rows []T
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var row T
		require.NoError(t, json.Unmarshal(lines.Bytes(), &row))
		rows = append(rows, row)
	}
	require.NoError(t, lines.Err())
	return rows
}

// corpora returns the labelled pairs, by their origin.
func corpora(t testing.TB) map[string][]pair {
	t.Helper()
	all := map[string][]pair{}
	for _, name := range []string{"bases.jsonl", "own_bases.jsonl", "more_bases.jsonl", "fresh_bases.jsonl",
		"denial_bases.jsonl"} {
		for _, b := range readLines[base](t, name) {
			corpus := strings.TrimSuffix(name, ".jsonl")
			if b.HeldOut {
				corpus += " (held out)"
			}
			all[corpus] = append(all[corpus], b.pairs()...)
		}
	}
	for _, name := range []string{"short.jsonl", "own_short.jsonl"} {
		for _, s := range readLines[struct {
			ID, Question, A, B, Kind string
			Same                     bool `json:"same_facts"`
			Debatable                bool
			HeldOut                  bool `json:"held_out"`
		}](t, name) {
			corpus := strings.TrimSuffix(name, ".jsonl")
			switch {
			case s.Debatable:
				corpus += " (debatable)"
			case s.HeldOut:
				corpus += " (held out)"
			}
			all[corpus] = append(all[corpus], pair{id: s.ID, a: s.A, b: s.B, kind: s.Kind, source: "short", isSame: s.Same})
		}
	}
	for _, s := range readLines[swap](t, "swaps.jsonl") {
		corpus := "swaps"
		if s.HeldOut {
			corpus += " (held out)"
		}
		all[corpus] = append(all[corpus], s.pairs()...)
	}
	return all
}

// swap is a sentence in which a word is replaced by another, which may or may not mean the same.
type swap struct {
	ID, Lang, Text, Old, New, Kind string
	Same                           bool `json:"same_facts"`
	HeldOut                        bool `json:"held_out"`
}

// pairs returns the sentence before and after the replacement: alone, and within an otherwise unchanged answer.
func (s swap) pairs() []pair {
	around := [2]string{"您好，关于您的问题，答复如下。\n\n## 说明\n\n- 请先登录网站。\n- ", "\n- 办理地点在一楼大厅。\n\n如有其他问题，欢迎来电。"}
	if s.Lang == "en" {
		around = [2]string{"Thank you for your question.\n\n## Details\n\n- Sign in to the website first.\n- ",
			"\n- The office is on the ground floor.\n\nCall us any time."}
	}
	changed := strings.Replace(s.Text, s.Old, s.New, 1)
	return []pair{
		{id: s.ID, a: s.Text, b: changed, kind: s.Kind, source: "alone", isSame: s.Same},
		{id: s.ID, a: around[0] + s.Text + around[1], b: around[0] + changed + around[1], kind: s.Kind, source: "amid",
			isSame: s.Same},
	}
}

// score counts pairs, and those in which a conflict is found.
type score struct{ pairs, called int }

func (s score) rate() float64 {
	if s.pairs == 0 {
		return 0
	}
	return float64(s.called) / float64(s.pairs)
}

// isPlaced reports whether a conflict is found at the place where an answer was changed.
func isPlaced(p pair) bool {
	for _, d := range facts.Compare(p.a, p.b) {
		if d.IsConflict && d.A.Start < p.to && p.from < d.A.End {
			return true
		}
	}
	return false
}

func isConflict(a, b string) bool {
	for _, d := range facts.Compare(a, b) {
		if d.IsConflict {
			return true
		}
	}
	return false
}

// The labelled pairs are classified at least as well as testdata/floors.json requires; -v prints the table.
func TestLabelledPairs(t *testing.T) {
	t.Parallel()
	var floors map[string]map[string]float64
	content, err := os.ReadFile(filepath.Join("testdata", "floors.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &floors))
	show := os.Getenv("WENDING_FACTS")
	all := corpora(t)
	names := make([]string, 0, len(all))
	for corpus := range all {
		names = append(names, corpus)
	}
	sort.Strings(names)
	for _, corpus := range names {
		scores := map[string]*score{}
		count := func(key string, called bool) {
			if scores[key] == nil {
				scores[key] = &score{}
			}
			scores[key].pairs++
			if called {
				scores[key].called++
			}
		}
		right := 0
		for _, p := range all[corpus] {
			called := isConflict(p.a, p.b)
			if called != p.isSame {
				right++
			}
			if (called == p.isSame || p.to > 0 && !isPlaced(p)) && show != "" &&
				strings.Contains(corpus, "held out") == strings.Contains(show, "held") {
				t.Log(explain(p))
			}
			group := "found"
			if p.isSame {
				group = "false"
			}
			count(group+" "+p.source, called)
			if p.to > 0 {
				count("placed "+p.source, called && isPlaced(p))
			}
			if p.source != "short" {
				count(group+" "+p.source+" "+p.kind, called)
			}
		}
		t.Logf("%s: %d of %d right", corpus, right, len(all[corpus]))
		keys := make([]string, 0, len(scores))
		for key := range scores {
			keys = append(keys, key)
		}
		sort.Strings(keys)
		for _, key := range keys {
			t.Logf("  %-30s %3d of %3d  %5.1f %%", key, scores[key].called, scores[key].pairs, 100*scores[key].rate())
		}
		for key, floor := range floors[corpus] {
			switch {
			case key == "right":
				assert.GreaterOrEqual(t, float64(right)/float64(len(all[corpus])), floor, "%s: right", corpus)
			case scores[key] == nil:
				t.Errorf("%s has no pairs %q", corpus, key)
			case strings.HasPrefix(key, "false"):
				assert.LessOrEqual(t, scores[key].rate(), floor, "%s: %s", corpus, key)
			default:
				assert.GreaterOrEqual(t, scores[key].rate(), floor, "%s: %s", corpus, key)
			}
		}
	}
}

// explain prints the facts read in a misjudged pair.
func explain(p pair) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s same=%v kind=%s\n", p.id, p.isSame, p.kind)
	for _, d := range facts.Compare(p.a, p.b) {
		word := "omission"
		if d.IsConflict {
			word = "CONFLICT"
		}
		if p.isSame && !d.IsConflict {
			continue
		}
		fmt.Fprintf(&b, "   %s %s %q", word, d.Kind, d.Label)
		for _, f := range []*facts.Fact{d.A, d.B} {
			if f == nil {
				b.WriteString(" –")
				continue
			}
			fmt.Fprintf(&b, " | %s (%s) @%q", f.Value, f.Text, f.About)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// Numbers with equal digits differ if a mark separates their digits.
func TestMarksBetweenDigitsCount(t *testing.T) {
	t.Parallel()
	for _, p := range [][2]string{{"请在 3~5 天内答复。", "请在 35 天内答复。"}, {"请在 3、5 天后答复。", "请在 35 天后答复。"}} {
		require.True(t, isConflict(p[0], p[1]), "%q, %q", p[0], p[1])
	}
	require.False(t, isConflict("总价 1,200 元。", "总价1200元！"))
}

// A range is one value, however it is written, and so is a period from one time to another.
func TestARangeIsOneValue(t *testing.T) {
	t.Parallel()
	for answer, value := range map[string]string{
		"每次服用 5–10 片。":         "5–10 片",
		"每次服用 5至10片。":          "5–10 片",
		"营业时间为 9:00-18:00。":    "09:00–18:00",
		"上午九点到下午六点营业。":         "09:00–18:00",
		"Keep 2 to 4 tablets.": "2–4 tablet",
	} {
		list := facts.Read(answer)
		require.Len(t, list, 1, answer)
		require.Equal(t, facts.Range, list[0].Kind, answer)
		require.Equal(t, value, list[0].Value, answer)
		require.Equal(t, list[0].Text, answer[list[0].Start:list[0].End], answer)
	}
	differences := facts.Compare("每次服用 5–10 片。", "每次服用 5 至 15 片。")
	require.Len(t, differences, 1)
	require.Equal(t, "5–10 片", differences[0].A.Value)
	require.Equal(t, "5 至 15 片", differences[0].B.Text)
}

// Saying the same in another way is not a conflict: complementary limits, a ban and its exception, the order of a
// list.
func TestTheSameSaidInAnotherWay(t *testing.T) {
	t.Parallel()
	for _, p := range [][2]string{
		{"人民币现钞 2 万元以内不用申报。", "人民币超过 2 万元的，才需要申报。"},
		{"由本人到窗口办理。", "请本人到窗口办理，别人不能代办。"},
		{"Players with more than seven cards discard half.", "Whoever holds eight or more cards discards half."},
		{"罚款 1 元 1 分，身高一米八以下。", "罚款 1 元 1 分，身高 1.8 米以下。"},
		{"套外通话 0.15 元/分钟。", "套外通话一分钟一毛五。"},
		{"请在下午 6 点前还车。", "请在 18:00 前还车。"},
		{"目标：一般患者血压应低于 140/90 mmHg。", "目标：通常患者血压应低于 140/90 mmHg。"},
		{"以上三种方式都可以办理，费用 30 元，当天出结果。", "上述三种方式都可以办理，费用 30 元，当天出结果。"},
		{"地下车库限高 2.2 米。", "地下车库限高 2 米 2。"},
		{"答案：ABD", "选 A、B 和 D。"},
		{"C", "正确答案是 C，因为其他三项都有效。"},
		{"申请实用新型专利，实用新型必须有附图。", "材料有五样，实用新型没有附图是不行的。"},
		{"数据至少 1000 条，训练集与验证集按 9:1 划分。", "样本一千条起步，拿 10% 做验证集。"},
		{"水开后煮 6 分半钟。", "水开后煮 6.5 分钟。"},
	} {
		require.False(t, isConflict(p[0], p[1]), "%q, %q: %+v", p[0], p[1], facts.Compare(p[0], p[1]))
	}
}

// A fact is not missing if the other answer states it in words that are not read as a fact.
func TestNothingIsMissingThatIsSaidInOtherWords(t *testing.T) {
	t.Parallel()
	for _, p := range []struct {
		a, b      string
		isMissing bool
	}{
		{"私教课不满 10 节的不退。", "私教课少于十节不退。", false},
		{"私教课不满 10 节的不退。", "私教课少于二十节不退。", true},
		{"每个套餐有 2 节体验课。", "每个套餐都送两节体验课。", false},
		{"每月 1–10 日到前台办理。", "手续：每月 1 日到 10 日，到前台。", false},
		{"防火期：10 月 1 日至次年 4 月 30 日，禁止用火。", "防火期 10/1—次年4/30，禁止用火。", false},
		{"防火期：10 月 1 日至次年 4 月 30 日，禁止用火。", "防火期 10/1—次年5/30，禁止用火。", true},
		{"营业时间：工作日 7:00–23:00。", "周一到周五早七点至晚十一点开门。", false},
		{"营业时间：15 个工作日内公布。", "15 个工作日内公布，周一到周五开门。", true},
		{"周末 9:00–22:00。", "周六早九点到晚十点。", false},
		{"Open on weekdays.", "Open Monday to Friday.", false},
	} {
		missing := facts.Compare(p.a, p.b)
		require.Equal(t, p.isMissing, len(missing) > 0, "%q, %q: %+v", p.a, p.b, missing)
	}
}

// A sentence that both answers contain is not contradicted by another one, and a statement about values below a limit
// does not contradict one about values above it.
func TestASentenceThatBothShareIsNotContradicted(t *testing.T) {
	t.Parallel()
	const of8, below8 = "- D 项：八周岁以上的未成年人为限制民事行为能力人。\n", "- C 项：不满八周岁的未成年人为无民事行为能力人。\n"
	require.False(t, isConflict("正确答案：C\n"+of8, "这道题选 C。\n"+of8+below8))
	require.False(t, isConflict("正确答案：C\n"+of8, "这道题选 C。\n"+below8+"- D 项：八周岁以上的未成年人是限制民事行为能力人。\n"))
	require.True(t, isConflict("正确答案：C\n"+of8, "这道题选 C。\n"+strings.Replace(of8, "八周岁", "十周岁", 1)))
}

// Differences that are easily overlooked are conflicts: a weekday, an amount in another unit, a negation in another
// place.
func TestSmallChangesAreConflicts(t *testing.T) {
	t.Parallel()
	for _, p := range [][2]string{
		{"周三下午闭馆。", "周四下午闭馆。"},
		{"锅里加 600 毫升开水。", "锅里加 0.8 升开水。"},
		{"It is not dishwasher-safe; only the tray is.", "It is dishwasher-safe; only the tray is not."},
		{"技术犯规罚 1 次，球权不变。", "技术犯规罚 2 次，球权不变。"},
		{"C", "正确答案是 B，因为其他三项都有效。"},
		{"答案：ABD", "选 A、B 和 C。"},
		{"训练集与验证集按 9:1 划分。", "训练集与验证集按 8:1 划分。"},
		{"没有附图不行。", "没有附图也行。"},
	} {
		require.True(t, isConflict(p[0], p[1]), "%q, %q", p[0], p[1])
	}
}

// around returns one of two answers that contain the same statement and are otherwise worded differently.
func around(n int, statement string) string {
	return [2]string{
		"办理说明如下。\n\n- 窗口在一楼东侧大厅，取号后等候。\n- " + statement + "\n- 材料由工作人员当场核对。\n\n祝您顺利。",
		"您好！到一楼大厅东边取号。\n\n" + statement + "\n\n工作人员会在现场看材料，然后就办好了。",
	}[n]
}

// A clause that denies something contradicts a clause that affirms it in other words, if the latter contains an
// affirming word. Two numbers without a counterpart are compared with each other, even if one of them also occurs
// elsewhere in the other answer.
func TestReversedInOtherWords(t *testing.T) {
	t.Parallel()
	for _, p := range [][2]string{
		{"备份文件会自动删除。", "回滚期限 14 天，逾期不能回滚；备份文件不会被自动删除。"},
		{"这笔押金在续租以后会自动退还。", "押金在续租以后不会自动退还给客人。"},
		{"The deposit is also refunded to guests who cancel late.", "Guests who cancel late: the deposit is not refunded."},
		{"顺延至下一个自然日处理。", "顺延至下个工作日处理。"},
	} {
		require.True(t, isConflict(around(0, p[0]), around(1, p[1])), "%q, %q", p[0], p[1])
		require.True(t, isConflict(around(0, p[1]), around(1, p[0])), "%q, %q", p[1], p[0])
	}
	for _, p := range [][2]string{
		{"申请用邮寄。", "本局不接受用邮寄的申请。"},                              // names it only
		{"超过 30 日的申请不接受。", "30 日内的申请也接受。"},                      // the other side of a limit
		{"只有本人到场才接受申请。", "本人不到场的，申请不接受。"},                       // an exception
		{"如果没有预约，窗口会接受现场取号。", "窗口也接受现场取号。"},                     // a condition
		{"The booking fee is not.", "The booking fee is kept."}, // leaves out what it denies
	} {
		require.False(t, isConflict(around(0, p[0]), around(1, p[1])), "%q, %q: %+v", p[0], p[1],
			facts.Compare(around(0, p[0]), around(1, p[1])))
	}
}

// A label consists of whole words: the clause of a statement, or the text before a value.
func TestLabelsAreWords(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"Rings must come off, but nobody under sixteen years may ever enter the sauna alone.": "years may ever",
		"存放 5 天。提前还款满一年后即可申请，不收取违约金。":                                                         "不收取违约金",
		"凡是在本行开户的、年龄未满 16 周岁的客户不可以开通网银转账。":                                                    "未满 16 周岁的客户",
		"在 `config.yaml` 里把 `sync.timeout` 从 30 秒改为 120 秒。":                                   "timeout 从 30 秒改为",
	} {
		list := facts.Read(answer)
		require.NotEmpty(t, list, answer)
		found := false
		for _, f := range list {
			require.LessOrEqual(t, utf8.RuneCountInString(f.About), 20, f.About)
			found = found || strings.Contains(f.About, want)
		}
		require.True(t, found, "%s: %+v", want, list)
	}
	require.Equal(t, "先把连接池 端口", facts.Read("先把连接池（端口 6432）停掉。")[0].About, "without half a pair of brackets")
	for _, f := range facts.Read("金额：货款 80 万元，逾期 46 天，违约金为 800,000 × 0.05% × 46 = 18,400 元。") {
		require.False(t, strings.HasPrefix(f.About, "000"), "a part of a number: %s", f.About)
	}
}
