package text_test

import (
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// Each thing has one name: the words on the left are retired in favour of those on the right.
func TestChineseTextsUseOneTermPerThing(t *testing.T) {
	t.Parallel()
	retired := map[string]string{
		`对比组`: "方案", `评判|评分`: "打分, or 裁判模型", `题目`: "问题 or 题", `延迟`: "耗时", `时长`: "用时", `速率`: "限速",
		`缺省`: "默认", `产物`: "文件", `推理`: "思考过程", `任务归档|下载归档`: "任务包", `账户`: "账号", `词元`: "Token",
		`货币`: "币种", `价格`: "单价", `同时调用|通道`: "并发", `\d %|\}\} %`: "% without a blank", `…{2}|[^【]…$`: "...",
		`\p{Han} tokens?(?:[^:\pL]|$)|每百万 tokens`: "Token", `你`: "您", `！`: "no exclamation mark",
	}
	// The example questions address the agent, not the user.
	toTheAgent := map[string]bool{"create.probe.default": true}
	for pattern, instead := range retired {
		word := regexp.MustCompile(pattern)
		for key, forms := range texts(t, "zh-CN") {
			for _, form := range forms {
				if !toTheAgent[key] {
					require.NotRegexp(t, word, form, "%s: write %s", key, instead)
				}
			}
		}
	}
}
