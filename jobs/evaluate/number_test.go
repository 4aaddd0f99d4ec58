package evaluate

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The numbers that a text states, each fully evaluated.
func TestNumbersAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		// signs
		"负5": "-5", "零下5度": "-5", "零下 12.5 ℃": "-12.5", "minus 5": "-5", "it is negative 5": "-5", "−5": "-5", "－５": "-5",
		"-$5":       "-5",
		"7 minus 5": "7 5", "正负5": "5", "±5": "5", "3-5": "3 5", "GPT-4": "4", "负责5个项目": "5", "下降-5%": "-0.05",
		"负 3 万元": "-30000",
		"零下十五度":  "-15", "负百分之五": "-0.05", "负一百二十": "-120", "(-5)": "-5",
		// 万 and 亿
		"1万": "10000", "1.5 亿元": "150000000", "3千": "3000", "5百": "500", "2千万": "20000000", "1万亿": "1000000000000",
		"3万5千":    "35000",
		"1亿2000万": "120000000", "3万5": "35000", "1万2000元": "12000", "3千克": "3", "5千瓦时": "5", "2千米": "2", "涨了3百分点": "3",
		"3个百分点":   "3",
		"3万人，5个组": "30000 5", "2 万 5 个": "20000 5", "12万元以上": "120000",
		// powers
		"1.0×10^3": "1000", "3×10⁸": "300000000", "3 x 10^8": "300000000", "6.02*10^{23}": "602000000000000000000000",
		`3 \times 10^{-2}`: "0.03", "1e3": "1000",
		"10^8": "100000000", "2^10 = 1024": "1024 1024", "x^2": "", "x^{12}": "", "x² + y³": "", "a_1": "", "x**2": "",
		"10m²": "10", "面积为10㎡": "10", "3²": "9",
		"**12** 个，共 **3** 次": "12 3",
		// shares
		"25%": "0.25", "25 ％": "0.25", "25 percent": "0.25", "百分之25": "0.25", "百分之二十五": "0.25", "千分之五": "0.005",
		"万分之五": "0.0005", "5‰": "0.005", `25\%`: "0.25",
		"1/2": "0.5", "３／４": "0.75", "二分之一": "0.5", "三分之二": "0.666667", `\frac{1}{4}`: "0.25", "1 1/2": "1.5",
		"1/2/3": "1 2 3", "1/0": "1 0", "占 3/8。": "0.375",
		// separators and widths
		"1,234,567.5": "1234567.5", "12,34": "12 34", "方案1，200元": "1 200", "４２": "42", "１．５": "1.5", ".5": "0.5",
		"见 No.42": "42", "答案是...42": "42", "v1.2.3": "1.2",
		// Chinese numerals
		"一百二十": "120", "二十三": "23", "一千零五": "1005", "三万五": "35000", "三万五千": "35000", "五万一年": "50000", "一百五十元": "150",
		"一百五元": "150", "一亿二千万": "120000000",
		"两千零二十四": "2024", "壹佰贰拾": "120", "一百二十点五": "120.5", "四个。": "4", "六": "6", "三年": "3", "答案是五。": "5", "共有两条": "2",
		"一个月":     "1",
		"这是一个好问题": "", "这是一个问题。": "", "统一标准": "", "十分重要": "", "唯一的办法": "", "万一下雨": "", "第十二条": "12", "三三两两": "", "一般来说": "",
		// dates
		"2024年5月1日": "2024年 5月 1日", "5月3号": "5月 3日", "2024-05-01": "2024年 5月 1日", "2024/5/1": "2024年 5月 1日",
		"二〇二四年五月一日": "2024年 5月 1日", "1.5年": "1.5",
		"2024年5月": "2024年 5月", "3个月": "3",
		// texts with references, versions and the like, which do not count as numbers
		"答案是 12 [1]": "12", "12[^1]": "12", "12【3】": "12", "12【4†source】": "12", "答案是 12 [来源2]": "12", "12（来源：报告3）": "12",
		"12 [1, 2] [3-5]": "12", "[12]": "12",
		"答案是12，见第3题": "12", "12，详见第3章": "12", "12，参见图 3": "12", "12 (see section 3.2)": "12", "收到意见5条": "5",
		"12，见 https://example.com/2024/05": "12", "参考 3 篇": "3",
		"1. 答案是 12\n2. 完毕": "12", "1、共 5 个\n2、共 6 个": "5 6", "42. That is it.": "42", "- 3 apples\n- 4 pears": "3 4",
		"没有": "",
	} {
		var read []string
		for _, number := range NumeralsIn(text) {
			shown := number.Value.FloatString(6)
			if strings.Contains(shown, ".") {
				shown = strings.TrimSuffix(strings.TrimRight(shown, "0"), ".")
			}
			read = append(read, shown+number.Unit)
		}
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, strings.Join(read, " "))
		})
	}
}

func TestNumbersAreCompared(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		config, expected, answer string
		passes                   bool
	}{
		{``, "5", "负5", false}, {``, "-5", "负5", true}, {``, "5", "零下5度", false}, {``, "-5", "零下5度", true},
		{``, "3", "1.0×10^3", false}, {``, "1000", "1.0×10^3", true}, {``, "1", "1万", false}, {``, "10000", "1万", true},
		{``, "1万", "10,000", true},
		{``, "2", "x^2", false}, {``, "25%", "25", false}, {``, "25", "25%", false}, {``, "25%", "0.25", true},
		{``, "0.25", "25%", true}, {``, "百分之二十五", "25%", true},
		{``, "12", "答案是 12 [1]", true}, {``, "12", "答案是12，见第3题", true}, {``, "12", "答案是12（第3题）", true},
		{``, "3", "没有找到 [3]", false},
		{``, "0.5", "1/2", true}, {``, "1/2", "50%", true}, {``, "2024年", "2024年5月", true}, {``, "2024年5月", "2024年", false},
		{``, "2024年5月", "2023年5月", false}, {``, "2024年5月1日", "2024-05-01", true}, {``, "2024年5月1日", "2024-05-02", false},
		{``, "2024年5月1日", "二〇二四年五月一日", true},
		{``, "2024年", "2024", true}, {``, "2024年", "5月", false}, {``, "2024年", "自2024年起，共 5 次", true},
		{``, "2023年", "自2024年起，共 2023 次", false}, {``, "5月", "2024年5月3日", true},
		{``, "3年", "三年。", true}, {``, "三年", "3 年", true}, {``, "4", "四个。", true}, {``, "1", "这是一个好问题", false},
		{``, "第585条", "依据第585条，共 3 款", true}, {``, "3", "依据第585条，共 3 款", true}, {``, "585", "依据第585条", true},
		{``, "30万公里", "约 300,000 公里", true}, {``, "12", "<think>13, no</think>12", true},
		{`{"which":"first"}`, "12", "12，另外还有 13", true}, {`{"which":"first"}`, "13", "12，另外还有 13", false},
		{`{"which":"last"}`, "13", "12，另外还有 13", true},
		{`{"which":"any"}`, "12", "11、12、13", true}, {`{"which":"any"}`, "14", "11、12、13", false},
		{`{"which":"any"}`, "1", "11 [1]", false}, {`{"which":"any"}`, "1", "没有数字", false},
		{`{"which":"first"}`, "12", "<think>13</think>12 和 14", true}, {`{"which":"first"}`, "12", "1. 是 12\n2. 是 13", true},
		{`{"tolerance":1}`, "2024年", "2025年5月", true}, {`{"tolerance":0.01,"relative":true}`, "1亿", "1.005 亿", true},
		{`{"tolerance":0.01,"relative":true}`, "-5", "零下 5.2 度", false},
	} {
		t.Run(test.expected+" ← "+test.answer, func(t *testing.T) {
			t.Parallel()
			verdict := verdictOf(t, compile(t, Number, test.config), Subject{Answer: test.answer, Values: values(test.expected)})
			require.Equal(t, Succeeded, verdict.Status)
			require.Equal(t, test.passes, *verdict.Passed, "%s: %s", test.config, verdict.Reason)
		})
	}
	_, err := Compile(t.Context(), Number, []byte(`{"which":"second"}`))
	require.ErrorAs(t, err, new(*ConfigError))
}

// However long a text is, its numbers are found quickly or not at all.
func TestNumbersOfALongTextAreBounded(t *testing.T) {
	t.Parallel()
	for _, part := range []string{"9", "1/", "1万", "一", "2^", "1,234", "[1]", "2024年", "1年", "二〇二四年", "1. 1\n", "见", "百分之",
		"-", "1e9"} {
		for which, size := range map[string]int{"first": numbersWithin / 20, "last": numbersWithin / 20,
			"any": numbersWithin / 4} {
			verdict := verdictOf(t, compile(t, Number, `{"which":"`+which+`"}`),
				Subject{Answer: strings.Repeat(part, size/len(part)), Values: values("42")})
			require.Contains(t, []Status{Succeeded, Failed}, verdict.Status)
		}
	}
}
