package event

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// clock is a time that the test advances.
type clock struct{ at time.Time }

func newLogAt(c *clock) *Log {
	l := NewLog(0)
	l.now = func() time.Time { return c.at }
	return l
}

func (c *clock) pass(ms int) { c.at = c.at.Add(time.Duration(ms) * time.Millisecond) }

func TestEventsArePackedAndUnpackedAsTheyWere(t *testing.T) {
	t.Parallel()
	percent, id := 12.5, uuid.New()
	events := []Event{
		{Seq: 7, AtMS: 3, Type: TaskStarted, Data: Data{Attempt: 1}},
		{Seq: 8, AtMS: 10, Type: Text, Data: Data{Text: "巴"}},
		{Seq: 9, AtMS: 10, Type: Text, Data: Data{Text: ""}},
		{Seq: 10, AtMS: 900_000, Type: Text, Data: Data{Text: "new", Replaces: true}},
		{Seq: 11, AtMS: 900_000, Type: ProgressUpdate, Data: Data{Progress: &percent, Message: "…"}},
		{Seq: 12, AtMS: 3_599_999, Type: Asset, Data: Data{Kind: Image, URL: "http://x", AssetID: &id}},
		{Seq: 13, AtMS: 3_600_000, Type: Other, Data: Data{Name: "x", Raw: []byte(`{"a":1}`)}},
	}
	part, err := Pack(events)
	require.NoError(t, err)
	back, err := Unpack(part)
	require.NoError(t, err)
	require.Equal(t, events, back)
	for n := range part { // damaged parts are refused and do no harm
		_, err := Unpack(part[:n])
		if n > 0 {
			require.Error(t, err, n)
		}
	}
	empty, err := Pack(nil)
	require.NoError(t, err)
	back, err = Unpack(empty)
	require.NoError(t, err)
	require.Empty(t, back)
}

func FuzzUnpackNeverPanics(f *testing.F) {
	part, err := Pack([]Event{{Seq: 1, Type: TaskStarted}, {Seq: 2, AtMS: 5, Type: Text, Data: Data{Text: "x"}}})
	require.NoError(f, err)
	f.Add(part)
	f.Add([]byte{isPlain, 200, 1, 1})
	f.Fuzz(func(_ *testing.T, part []byte) { _, _ = Unpack(part) })
}

// A chat of 2,000 characters that arrives token by token over twenty seconds, stored every second, takes at most
// 1.5 times its own size.
func TestAChatTakesLittleMoreThanItsText(t *testing.T) {
	t.Parallel()
	law := []rune(strings.Repeat("根据《中华人民共和国民法典》第五百七十七条，当事人一方不履行合同义务或者履行合同义务不符合约定的，应当承担继续履行、采取补救措施或者赔偿损失等违约责任。", 1) +
		"建设用地使用权期限届满前，因公共利益需要提前收回该土地的，应当依据本法第二百四十三条的规定对该土地上的房屋以及其他不动产给予补偿，并退还相应的出让金。" +
		"住宅建设用地使用权期限届满的，自动续期。续期费用的缴纳或者减免，依照法律、行政法规的规定办理。非住宅建设用地使用权期限届满后的续期，依照法律规定办理。" +
		"居住权人有权按照合同约定，对他人的住宅享有占有、使用的用益物权，以满足生活居住的需要。设立居住权，当事人应当采用书面形式订立居住权合同。")
	random := rand.New(rand.NewPCG(1, 2))
	c := &clock{time.Now()}
	l := newLogAt(c)
	l.Begin()
	text, stored, flushed := 0, 0, c.at
	flush := func() {
		part, err := Pack(l.Take())
		require.NoError(t, err)
		stored += len(part)
		flushed = c.at
	}
	for n := 0; n < 2000; {
		size := 1 + random.IntN(3)
		piece := ""
		for range size {
			piece += string(law[(n*7+random.IntN(40))%len(law)]) // less repetitive than prose
			n++
		}
		c.pass(10 + random.IntN(25))
		l.Emit(Text, Data{Text: piece})
		text += len(piece)
		if c.at.Sub(flushed) > time.Second {
			flush()
		}
	}
	l.Emit(TaskCompleted, Data{Code: "SUCCEEDED"})
	flush()
	require.LessOrEqual(t, float64(stored)/float64(text), 1.5, "%d of %d bytes", stored, text)
	t.Logf("%d bytes for %d of text: %.2f", stored, text, float64(stored)/float64(text))
}

func TestPiecesWithinAFrameBecomeOne(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	l := newLogAt(c)
	l.Begin()
	for _, wait := range []int{5, 5, 5, 100, 5} {
		c.pass(wait)
		l.Emit(Text, Data{Text: fmt.Sprint(wait, " ")})
	}
	l.Emit(Reasoning, Data{Text: "why"})
	events := l.Take()
	require.Len(t, events, 4)
	require.Equal(t, "5 5 5 ", events[1].Data.Text)
	require.Equal(t, 5, events[1].AtMS)
	require.Equal(t, "100 5 ", events[2].Data.Text)
	require.Equal(t, 100, l.LongestSilence())
}

// A log that nobody stores stays within its limits, no matter how much it receives. The events that end a call are
// kept, and report how much is missing.
func TestALogIsBounded(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	l := newLogAt(c)
	l.Begin()
	percent := 1.0
	for range 200_000 {
		c.pass(1)
		l.Emit(Text, Data{Text: strings.Repeat("x", 100)})
		l.Emit(ProgressUpdate, Data{Progress: &percent})
		l.Emit(Other, Data{Name: "noise", Raw: []byte(`"` + strings.Repeat("y", 1000) + `"`)})
	}
	l.Emit(TaskCompleted, Data{})
	events := l.Take()
	bytes := 0
	for _, one := range events {
		bytes += one.Data.size()
	}
	require.Less(t, bytes, maxWaiting+2<<20)
	last := events[len(events)-1]
	require.Equal(t, TaskCompleted, last.Type)
	require.Greater(t, last.Data.Dropped, 100_000)
}

func TestTenThousandEventsAreKept(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	l := newLogAt(c)
	l.Begin()
	for n := range 10_000 {
		c.pass(20)
		percent := float64(n) / 100
		l.Emit(ProgressUpdate, Data{Progress: &percent})
	}
	events := l.Take()
	require.Len(t, events, 10_001)
	part, err := Pack(events)
	require.NoError(t, err)
	back, err := Unpack(part)
	require.NoError(t, err)
	require.Equal(t, events, back)
	reached, _ := l.Progress()
	require.InDelta(t, 99.99, *reached, 0.001)
}

// The wait before another attempt does not count as silence of the agent.
func TestAnotherAttemptBeginsAnew(t *testing.T) {
	t.Parallel()
	c := &clock{time.Now()}
	l := newLogAt(c)
	l.Begin()
	c.pass(50)
	l.Emit(Retry, Data{Attempt: 2, WaitMS: 4000})
	c.pass(4000)
	l.Again()
	c.pass(30)
	l.Emit(Text, Data{Text: "x"})
	events := l.Take()
	require.Equal(t, []Type{TaskStarted, Retry, Text}, []Type{events[0].Type, events[1].Type, events[2].Type})
	require.Equal(t, 30, l.LongestSilence())
}

// If an agent sends small events without end, the events waiting to be stored are limited by the memory that they take,
// not by the length of their contents.
func TestSmallEventsAreBoundedByTheirMemory(t *testing.T) {
	t.Parallel()
	log := NewLog(0)
	log.Begin()
	for range 50_000 {
		log.Emit(Other, Data{Name: "whatever", Raw: json.RawMessage(`{"a":1}`)})
	}
	log.Emit(TaskCompleted, Data{})
	waiting := log.Take()
	require.Less(t, len(waiting)*int(unsafe.Sizeof(Event{})), 6<<20)
	require.Equal(t, 50_002, len(waiting)+waiting[len(waiting)-1].Data.Dropped)
}
