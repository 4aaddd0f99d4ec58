package blocks

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// Texts that were compared by character are marked by word, without changing what they say.
func TestDifferencesAreWidenedToWords(t *testing.T) {
	t.Parallel()
	for _, one := range []struct{ base, text, marked string }{
		{"公司有权解除合同。", "公司有责解除合同。", "公司[有权|有责]解除合同。"},
		{"应当立即答复申请人", "应当及时答复申请人", "应当[立即|及时]答复申请人"},
		{"The fee is 30 EUR.", "The fee is 35 EUR.", "The fee is [30|35] EUR."},
		{"不可以停止支付", "可以停止支付", "[不|]可以停止支付"},
		{"相同的话", "相同的话", "相同的话"},
		{"", "新增的话", "[|新增的话]"},
		{"日本\xff人", "日本\xff狗", "日本\xff[人|狗]"},
	} {
		pieces := ByWord(measure.CompareTexts(one.base, one.text, time.Second).Pieces(one.base, one.text), one.base, one.text)
		var marked, base, text strings.Builder
		for n, piece := range pieces {
			switch piece.Op {
			case measure.Delete:
				base.WriteString(piece.Text)
				marked.WriteString("[" + piece.Text + "|")
				if n == len(pieces)-1 || pieces[n+1].Op != measure.Insert {
					marked.WriteString("]")
				}
			case measure.Insert:
				text.WriteString(piece.Text)
				if n == 0 || pieces[n-1].Op != measure.Delete {
					marked.WriteString("[|")
				}
				marked.WriteString(piece.Text + "]")
			default:
				base.WriteString(piece.Text)
				text.WriteString(piece.Text)
				marked.WriteString(piece.Text)
			}
		}
		require.Equal(t, one.marked, marked.String())
		require.Equal(t, one.base, base.String())
		require.Equal(t, one.text, text.String())
	}
}

func BenchmarkByWord(b *testing.B) {
	base := strings.Repeat("公司应当在收到申请之日起及时答复，逾期的每日支付违约金，不得拒绝。", 30)
	text := strings.ReplaceAll(base, "及时", "立即")
	pieces := measure.CompareTexts(base, text, time.Second).Pieces(base, text)
	for b.Loop() {
		ByWord(pieces, base, text)
	}
}
