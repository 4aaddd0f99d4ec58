package dataset

import (
	"context"
	"io"
	"time"
)

// Limits on reading one file. A file that exceeds any of them is refused with CodeTooComplex, which names the limit;
// ordinary files stay far below all of them.
const (
	// maxTokens is the maximum number of XML tokens, records or cells that are read.
	maxTokens = 4_000_000
	// MaxText is the maximum total size of a dataset's cells, in bytes; a text that many cells of a workbook share
	// counts once for each cell.
	MaxText = 32 << 20
	// maxRowCells is the maximum number of cells in a row of a CSV file.
	maxRowCells = 65_536
	// maxSheets is the maximum number of sheets in a workbook.
	maxSheets = 256
	// maxUnzipped is the maximum total uncompressed size of a workbook's parts, in bytes; 5 MB of ordinary text stays
	// far below it.
	maxUnzipped = 64 << 20
	// maxTokenBytes is the maximum length of an XML token, in bytes. A cell holds at most 32,767 characters.
	maxTokenBytes = 1 << 20
	// maxDepth is the maximum nesting of XML elements.
	maxDepth = 64
)

// maxTime is the maximum CPU time for reading one file. Tests raise it, because the race detector slows everything
// down.
var maxTime = 2 * time.Second

// budget tracks the cost of reading one file. It must stay on one OS thread, because it measures that thread's CPU
// time.
type budget struct {
	ctx          context.Context
	began        time.Duration
	tokens, text int
	// factor multiplies the limits: it is 1 for a dataset and tableFactor for a table, which may be larger.
	factor int
}

func newBudget(ctx context.Context) *budget {
	return &budget{ctx: ctx, began: ProcessorTime(), factor: 1}
}

// spend counts one token. It fails if there are too many, the time is up, or the request has ended.
func (b *budget) spend() error {
	b.tokens++
	if most := maxTokens * b.factor; b.tokens > most {
		return tooComplex("complex_tokens", most)
	}
	if b.tokens%256 == 0 {
		return b.checkTime()
	}
	return nil
}

func (b *budget) checkTime() error {
	if most := maxTime * time.Duration(b.factor); ProcessorTime()-b.began > most {
		return tooComplex("complex_seconds", int(most.Seconds()))
	}
	return b.ctx.Err()
}

// spendText adds up the bytes of a row's cells, and fails if there are too many in total.
func (b *budget) spendText(cells []string) error {
	for _, cell := range cells {
		b.text += len(cell)
	}
	if most := MaxText * b.factor; b.text > most {
		return tooComplex("complex_text_mib", most>>20)
	}
	return nil
}

// tooComplex returns the error that names the exceeded limit.
func tooComplex(limit string, most int) *Error {
	return problem(CodeTooComplex, limit, "Max", most)
}

// meteredReader reads a part of a file and checks the time before each piece, so that even a long part without tokens
// stops in time. sinceToken is the number of bytes read since it was last reset.
type meteredReader struct {
	io.Reader
	budget     *budget
	sinceToken int
}

func (r *meteredReader) Read(into []byte) (int, error) {
	if err := r.budget.checkTime(); err != nil {
		return 0, err
	}
	if r.sinceToken > maxTokenBytes {
		return 0, tooComplex("complex_token_kib", maxTokenBytes>>10)
	}
	n, err := r.Reader.Read(into)
	r.sinceToken += n
	return n, err
}
