package text_test

import (
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/engine"
	"wending/db/entries"
	"wending/db/event"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/outbox"
	"wending/db/people"
	"wending/db/review"
	"wending/db/tasklist"
	"wending/handlers/access"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/jobs"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/answers"
	"wending/jobs/archive"
	"wending/jobs/courier/notify"
	"wending/jobs/cron"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
	"wending/jobs/library"
	"wending/jobs/reason"
	"wending/jobs/tasks"
	"wending/views/results"
	"wending/views/saved"
	"wending/views/summary"
	"wending/views/system"
	"wending/views/taskpages"
	"wending/views/text"
	"wending/views/ui"
)

var (
	usedKey     = regexp.MustCompile(`(?:\bT\(ctx|\.Text|\.TextWith)\(?,? ?"([a-z][\w.]*\w)"[,)]`)
	placeholder = regexp.MustCompile(`\{\{\.(\w+)\}\}`)
)

// texts reads a language's catalogues of all areas: for each key its plural forms.
func texts(t *testing.T, lang string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	files, err := filepath.Glob("locales/*." + lang + ".json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		var area map[string]any
		require.NoError(t, json.Unmarshal(content, &area), file)
		for key, entry := range area {
			require.NotContains(t, all, key, "%s repeats a key of another area", file)
			switch entry := entry.(type) {
			case string:
				all[key] = []string{entry}
			case map[string]any:
				for _, form := range entry {
					all[key] = append(all[key], form.(string))
				}
			}
		}
	}
	return all
}

func placeholders(forms []string) []string {
	seen := map[string]bool{}
	for _, form := range forms {
		for _, match := range placeholder.FindAllStringSubmatch(form, -1) {
			seen[match[1]] = true
		}
	}
	names := []string{}
	for name := range seen {
		names = append(names, name)
	}
	return names
}

// sources returns the product's own sources, with templates in place of their generated code.
func sources(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, root := range []string{"../../views", "../../handlers", "../../cmd", "../../jobs"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			isSource := strings.HasSuffix(path, ".templ") ||
				(strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_templ.go") && !strings.HasSuffix(path, "_test.go"))
			if err != nil || entry.IsDir() || !isSource {
				return err
			}
			content, err := os.ReadFile(path)
			found[path] = string(content)
			return err
		}))
	}
	return found
}

// Every language has every text, none empty, with the same placeholders.
func TestCataloguesHaveTheSameTexts(t *testing.T) {
	t.Parallel()
	chinese := texts(t, "zh-CN")
	for _, lang := range text.Languages {
		other := texts(t, lang)
		require.Len(t, other, len(chinese))
		for key, forms := range chinese {
			require.NotEmpty(t, other[key], "%s in %s", key, lang)
			require.NotContains(t, other[key], "", "%s in %s", key, lang)
			require.ElementsMatch(t, placeholders(forms), placeholders(other[key]), "%s in %s", key, lang)
		}
	}
}

// In a language with a singular, every text with a count has a singular form: otherwise there would be no text for a
// count of one.
func TestWhatCountsHasASingular(t *testing.T) {
	t.Parallel()
	english := locale(t, "en")
	for key, forms := range texts(t, "en") {
		if !slices.Contains(placeholders(forms), "Count") {
			continue
		}
		for _, count := range []int{0, 1, 2} {
			require.NotEqual(t, key, english.Text(key, "Count", count), "%d of %s", count, key)
		}
	}
}

// Chinese sentences use Chinese punctuation, except where spec/004 prescribes otherwise.
func TestChineseTextsUseFullWidthPunctuation(t *testing.T) {
	t.Parallel()
	halfWidth := regexp.MustCompile(`\p{Han}[,;!?()]|[,;!?(]\p{Han}|\p{Han}:( |$)`)
	asSpecified := map[string]bool{"results.title": true, "tasks.stopped": true, "create.file.hint": true}
	for key, forms := range texts(t, "zh-CN") {
		for _, form := range forms {
			if !asSpecified[key] {
				require.NotRegexp(t, halfWidth, form, key)
			}
		}
	}
}

// Every key that a template or a handler uses is in the catalogue, and every key of the catalogue is used.
func TestKeysOfSourcesAndCatalogueAreTheSame(t *testing.T) {
	t.Parallel()
	chinese := texts(t, "zh-CN")
	used := map[string]bool{}
	var all strings.Builder
	for path, content := range sources(t) {
		all.WriteString(content)
		for _, match := range usedKey.FindAllStringSubmatch(content, -1) {
			used[match[1]] = true
			require.Contains(t, chinese, match[1], path)
		}
	}
	require.Greater(t, len(used), 150)
	dynamic := dynamicKeys(t)
	for key := range chinese {
		require.True(t, strings.Contains(all.String(), `"`+key+`"`) || dynamic[key], "%s is never used", key)
	}
	for key := range dynamic {
		require.Contains(t, chinese, key)
	}
}

// dynamicKeys returns the keys that the sources assemble at run time, for every value that a key can be made from.
func dynamicKeys(t *testing.T) map[string]bool {
	t.Helper()
	keys := map[string]bool{}
	add := func(prefix string, names ...string) {
		for _, name := range names {
			keys[prefix+name] = true
		}
	}
	for _, status := range db.TaskStatuses {
		add("status.", string(status))
	}
	for _, status := range db.LaunchStatuses {
		add("launch.status.", string(status))
	}
	for _, kind := range db.LaunchKinds {
		add("launch.kind.", string(kind))
	}
	for _, status := range db.RunStatuses {
		add("run.", string(status))
	}
	withOwnMessage := regexp.MustCompile(`^(DATASET_|TASK_NAME_|AGENT_URL_(REQUIRED|INVALID)$)`)
	for _, code := range request.FaultCodes() {
		if !withOwnMessage.MatchString(code) {
			add("error.", code)
		}
	}
	for _, verdict := range review.Verdicts {
		add("verdict.", string(verdict))
	}
	add("task.tab.", "overview", "answers", "review", "report", "process", "settings")
	add("results.align.", results.Alignments...)
	add("results.by.", results.LettersBy...)
	add("results.filter.people.", "pass-pass", "pass-fail", "fail-pass", "fail-fail")
	add("results.filter.", results.FilterMeaningSame, results.FilterMeaningDifferent, results.FilterMeaningUnsure,
		results.FilterMissing, results.FilterUnrated, results.FilterUnsettled)
	add("meaning.by.", string(meaning.Model))
	add("review.reason.", review.Reasons...)
	add("review.kind.", review.WrongNumber, review.WrongConclusion, review.WrongCitation)
	add("review.same.without.", "judged", "failed", "against", "files")
	add("review.finding.", "most.none", "standard.none", "standard.unlike")
	for _, level := range measure.Levels {
		add("level.", string(level))
	}
	add("reason.", slices.Collect(maps.Keys(reason.Sentences))...)
	add("evaluation.code.", evaluate.CodeLimit, evaluate.CodeExpectation, evaluate.CodeExpression, evaluate.CodeRule,
		evaluate.CodeJudgeUnreadable)
	add("evaluator.field.", "kind", "config")
	add("summary.matrix.", "pass", "agreement")
	add("summary.worst.", "pass", "pass.mean", "agreement", "agreement.mean")
	add("summary.method.", "pass", "agreement", "interval", "paired", "latency", "cost")
	add("warning.", tasks.WarningCodes...)
	for _, kind := range evaluate.Kinds {
		add("evaluator.kind.", string(kind))
		add("evaluator.about.", string(kind))
		for _, field := range evaluate.Fields[kind] {
			add("evaluator.field.", field.Name)
			if field.Type != evaluate.Truth && field.Type != evaluate.Choice {
				add("evaluator.hint.", field.Name)
			}
			for _, choice := range field.Choices {
				add("evaluator."+field.Name+".", choice)
			}
		}
	}
	for _, group := range measure.ChangeGroups {
		add("compare.group.", string(group))
	}
	for _, loss := range measure.Losses {
		add("compare.loss.", string(loss))
		add("compare.gain.", string(loss))
	}
	for _, part := range summary.ComparisonParts()[1+len(measure.ChangeGroups):] {
		add("compare.", part)
	}
	for _, verdict := range []measure.Verdict{measure.NotWorse, measure.IsWorse, measure.Undecided} {
		add("compare.verdict."+string(verdict), "", ".means", ".means.zero")
	}
	add("compare.verdict.small_loss", "")
	for _, source := range measure.Sources {
		add("summary.noise.of.", string(source))
	}
	for _, advice := range measure.Advices {
		add("summary.noise.advice.", string(advice))
	}
	add("summary.noise.why.", "no_variation", "one_cluster", "one_run", "one_vote")
	add("summary.people.fitness.", "explore", "trend", "gate")
	add("fitness.", "explore", "trend", "gate")
	add("results.review.", "others", "done")
	for _, outcome := range measure.Outcomes {
		add("compare.confirmed.", string(outcome), "count."+string(outcome), string(outcome)+".means")
	}
	for _, sides := range tasks.AllSides {
		add("compare.confirm.hint.", string(sides))
	}
	add("compare.changed.of.", "verdicts", "answers")
	add("compare.says.", "no_question", "one_question", "one_cluster")
	add("summary.unknown.", "one_run", "no_question", "one_question", "one_cluster", "no_variation")
	add("export.compare.changed.", "yes", "no")
	add("compare.carry.without.", "judged", "changed", "failed", "standard", "files", "replaced")
	add("export.compare.", reading.ComparedTexts()...)
	add("results.text.", results.RunTexts...)
	add("results.align.", results.Alignments...)
	add("results.fingerprint.", "a", "b", "c", "d")
	add("compare.measure.", "agreement", "meaning", "success", "facts", "latency", "pass", "firsttoken", "tokens", "cost")
	add("compare.lead", "", ".a", ".b", ".a.b")
	add("figure.", slices.Collect(maps.Keys(ui.Explained))...)
	for _, measure := range summary.Measures {
		add("variants.measure."+measure.Name, "", ".title")
	}
	add("failure.", jobs.FailureCodes...)
	for _, kind := range event.Types {
		add("event.", string(kind))
	}
	add("asset.kind.", event.Image, event.Audio, event.Video, event.File)
	for _, kind := range event.SpanKinds {
		add("steps.kind.", string(kind))
	}
	add("event.state.", event.Started, event.Generating, event.Completed, event.Failed)
	add("run.error.", db.TurnNotReachedCode, protocol.CodeTimeout, protocol.CodeNetwork, protocol.CodeAddressNotAllowed,
		protocol.CodeAgent, protocol.CodeParse,
		protocol.CodeIncomplete, protocol.CodeTooLarge, protocol.CodeRefused, protocol.CodeFiltered, protocol.CodeNoAnswer,
		db.WorkerLostCode, "INTERNAL_ERROR")
	add("run.remedy.", protocol.CodeTimeout, protocol.CodeNetwork, protocol.CodeParse, protocol.CodeIncomplete, "HTTP_401",
		"HTTP_403", "HTTP_404", "HTTP_429", "HTTP_5XX")
	add("results.finish.", protocol.Finishes...)
	for _, ended := range []string{ui.EndedTruncated, ui.EndedRefused, ui.EndedFiltered} {
		add("ended."+ended, "", ".title")
	}
	for _, action := range []string{"run", "stop", "resume", "retry"} {
		add("do."+action, "", ".title")
		add("done.", action)
	}
	add("done.", "created", "extend", "confirm", "append", "evaluate", "saved", "deleted", "group", "signed", "assigned",
		"reviewed", "regrouped", "withdrawn", "carried", "stored", "version", "removed", "archived", "restored",
		"tested", "untested", "again", "imported", "ended", "revoked", "unshared")
	for _, number := range []string{"latency_ms", "total_tokens", "cost"} {
		add("results.slice.", number, "min_"+number, "max_"+number)
	}
	add("results.slice.", "min", "max")
	for _, kind := range people.ShareKinds {
		add("share.kind.", string(kind))
	}
	for _, mode := range people.CommentModes {
		add("share.comments.", string(mode))
	}
	for _, role := range people.Roles {
		add("role.", string(role), "about."+string(role))
	}
	for _, action := range people.SensitiveActions {
		add("projects.sensitive.", string(action))
	}
	add("sessions.by.", "password", "passkey", "password.passkey", "oidc", "setup")
	add("archive.", archive.Problems...)
	add("answers.format.", answers.Formats...)
	add("answers.column.", answers.Roles...)
	for _, column := range dataset.KnownColumns {
		add("template.column.", column)
	}
	for _, what := range []string{"question", "answer", "value"} {
		add("template."+what+".", "1", "2", "3", "4")
	}
	add("judging.", "verdict", "reasons", "note")
	add("dataset.", "judging_columns", "judging_format")
	add("dataset.row.", "judging_note", "judging_question", "judging_reasons", "judging_verdict", "sensitive",
		"unconfirmed")
	for _, code := range []string{request.CodeSensitiveContent, request.CodeUnconfirmed} {
		add("error."+code+".", "prompt", "row")
	}
	add("error.range.", archive.Wanted...)
	add("error.range.groups.", string(tasks.RunUnknown), string(tasks.RunMissing), string(tasks.RunRepeated),
		string(tasks.RunApart))
	add("quota.", people.QuotaUploads, people.QuotaDisk, people.QuotaCalls, people.QuotaCost)
	add("quota.exceeded.", people.QuotaUploads, people.QuotaDisk, people.QuotaCalls, db.ScheduleCap.What, db.ShareCap.What,
		db.TokenCap.What, db.ViewCap.What)
	add("error.range.password.", "short", "long", "common", "different", "wrong", "same")
	add("duty.", "password", "passkey")
	add("token.reach.", "accounts", "installation")
	add("action.", system.OwnActions...)
	for _, action := range append(access.Actions(), "share.open", "backup.restore", "audit.export", people.SealAction) {
		if slices.Contains(system.OwnActions, action) {
			continue
		}
		object, verb, _ := strings.Cut(action, ".")
		add("thing.", object)
		add("verb.", verb)
	}
	add("launch.by.", "api", "page", "schedule")
	for _, kind := range notify.Kinds {
		add("channel.kind.", string(kind))
		add("channel.about.", string(kind))
		if kind.TakesSecret() {
			add("channel.secret.", string(kind))
		}
	}
	for _, event := range outbox.Events {
		add("channel.event.", string(event), "about."+string(event))
	}
	add("channel.event.", "test")
	add("channel.state.", string(outbox.Pending), string(outbox.Sent), string(outbox.GivenUp))
	add("channel.lang.", text.Languages...)
	add("cron.day.", "0", "1", "2", "3", "4", "5", "6")
	add("notify.", "finished", "failed", "stopped")
	for _, metric := range measure.Metrics {
		add("trend.metric.", string(metric))
	}
	for _, column := range taskpages.Columns {
		add("tasks.column.", string(column))
	}
	for _, by := range tasklist.Shelvings {
		add("tasks.group.", string(by))
	}
	add("trend.reason.", entries.FiringReasons...)
	for _, follow := range entries.Follows {
		add("trend.follow.", string(follow))
		add("schedule.follow.", string(follow))
	}
	add("trend.part.", library.Parts...)
	for _, held := range library.AllHeld {
		add("trend.held.", string(held))
	}
	for _, kind := range measure.ConfigurationKinds {
		add("trend.config.", string(kind))
	}
	add("stop.", engine.Reasons...)
	add("error.", engine.ReasonTask, engine.ReasonProject, engine.ReasonMonth)
	add("cron.wrong.", cron.Fields...)
	for _, kind := range saved.Kinds {
		add("library.", string(kind), "new."+string(kind), "about."+string(kind), "empty."+string(kind))
	}
	for _, kind := range agent.RetryKinds {
		add("library.retry.", kind)
	}
	add("library.change.", "added", "removed", "altered")
	add("library.", "archive", "archive.confirm", "remove", "remove.confirm")
	add("nav.", "tasks", "schedules", "library", "system")
	for _, format := range []string{"csv", "xlsx", "jsonl", "html"} {
		add("results.export.", format, "failed."+format)
		add("results.exporting.", format)
	}
	// The problems that the reader of datasets reports are collected from its source.
	problems := regexp.MustCompile(`(?:problem\((?:dataset\.)?Code\w+, |tooComplex\()"(\w+)"`)
	rows := regexp.MustCompile(`fail\((?:row|number|line), [^,]+, "(\w+)"|fail\([^,]+, "(\w+)"|Problem: "(\w+)"`)
	found := 0
	for path, content := range sources(t) {
		if !slices.Contains([]string{"dataset", "answers"}, filepath.Base(filepath.Dir(path))) {
			continue
		}
		for _, match := range problems.FindAllStringSubmatch(content, -1) {
			found++
			add("dataset.", match[1])
		}
		for _, match := range rows.FindAllStringSubmatch(content, -1) {
			found++
			add("dataset.row.", match[1]+match[2]+match[3])
		}
	}
	require.Greater(t, found, 20)
	return keys
}

func locale(t *testing.T, lang string) text.Locale {
	t.Helper()
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	return catalogue.Locale(lang, "")
}

func TestATextIsFilledIn(t *testing.T) {
	t.Parallel()
	require.Equal(t, "评测报告: <b>", locale(t, "zh-CN").Text("results.title", "Name", "<b>"))
	require.Equal(t, "no.such.key", locale(t, "en").Text("no.such.key"))
}

func TestPluralsAndNumbers(t *testing.T) {
	t.Parallel()
	english, chinese := locale(t, "en"), locale(t, "zh-CN")
	require.Equal(t, "Retry (1)", english.Text("do.retry", "Count", 1))
	require.Equal(t, "重试（20,000）", chinese.Text("do.retry", "Count", 20000))
	require.Contains(t, english.Text("do.retry.title", "Count", 1), "the 1 run that")
	require.Contains(t, english.Text("do.retry.title", "Count", 2), "the 2 runs that")
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		require.Equal(t, want, text.Number(n))
	}
}

func TestDurationsAndUnits(t *testing.T) {
	t.Parallel()
	chinese := locale(t, "zh-CN")
	for want, d := range map[string]time.Duration{"0 ms": 0, "401 ms": 401 * time.Millisecond, "1.0 秒": time.Second,
		"9.0 秒": 9 * time.Second,
		"31 秒":  31 * time.Second, "1 分 0 秒": 59700 * time.Millisecond, "2 分 5 秒": 125 * time.Second,
		"1 小时 51 分": 111 * time.Minute} {
		require.Equal(t, want, text.Duration(chinese, d))
	}
	ms, share := 1401, 0.8745
	require.Equal(t, "1,401 ms", text.Millis(&ms))
	require.Equal(t, "–", text.Millis[int](nil))
	require.Equal(t, "87.5%", text.Percent(&share))
	require.Equal(t, "0:09", text.Clock(9))
	require.Equal(t, "1:00:01", text.Clock(3601))
	require.Equal(t, "5.0 MB", text.Bytes(5<<20))
}

func TestTextsAreCutAtCharactersAndMadeFitForAPage(t *testing.T) {
	t.Parallel()
	head, isCut := text.Head("长长长长", 3)
	require.Equal(t, "长长长", head)
	require.True(t, isCut)
	head, isCut = text.Head("长长长", 3)
	require.Equal(t, "长长长", head)
	require.False(t, isCut)
	require.Equal(t, "a\uFFFD\u2400b…", text.Shown([]byte("a\xff\x00bc"), 4))
}

// A reason is a sentence in the reader's language. A judge's own words, and texts from earlier versions, are shown
// unchanged.
func TestAReasonIsASentence(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ stored, chinese, english string }{
		{reason.Because("contains.missing", "巴黎", "首都"), "回答中缺少“巴黎”、“首都”", "The answer lacks “巴黎”, “首都”"},
		{reason.Because("number.differs", "41.4", "42"), "回答中的数是 41.4，应为 42",
			"The number in the answer is 41.4; expected 42"},
		{reason.Because("similarity", "0.7999", "0.8"), "与期望值的相似度为 0.7999，低于 0.8000",
			"The similarity to the expected value is 0.7999, below 0.8000"},
		{reason.Because("latency", "800", "799"), "耗时 800 毫秒，超过 799 毫秒",
			"The answer took 800 ms, more than the limit of 799 ms"},
		{reason.Because("schema.required", "/a", "b"), "/a 缺少字段“b”", "/a lacks “b”"},
		{reason.Because("expression.false"), "表达式的结果为假", "The expression is false"},
		{reason.Because("differs", "<b>", `a "b"`), "回答是“<b>”，应为“a \"b\"”", "The answer is “<b>”; expected “a \"b\"”"},
		{"∌ “巴黎”", "∌ “巴黎”", "∌ “巴黎”"},
		{`["unknown","x"]`, `["unknown","x"]`, `["unknown","x"]`},
		{`["differs","x"]`, `["differs","x"]`, `["differs","x"]`},
		{"", "", ""},
	} {
		require.Equal(t, test.chinese, locale(t, "zh-CN").Reason(test.stored))
		require.Equal(t, test.english, locale(t, "en").Reason(test.stored))
	}
	for key, names := range reason.Sentences {
		for _, lang := range []string{"zh-CN", "en"} {
			require.NotContains(t, locale(t, lang).Reason(reason.Because(key, names...)), "<no value>", key)
		}
	}
}

func TestSignificantDigitsHaveNoExponent(t *testing.T) {
	t.Parallel()
	for value, written := range map[float64]string{
		0.0000396: "0.0000396", 3.96449e-05: "0.0000396", 1234: "1230", 0: "0", -0.5: "-0.5", 12: "12", 999.9: "1000",
		1e12: "1000000000000", math.Inf(1): "+Inf",
	} {
		require.Equal(t, written, text.Significant(value, 3))
	}
}
