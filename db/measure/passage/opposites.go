package passage

import (
	"strings"
	"unicode/utf8"
)

// opposites maps words to their places in oppositeLines, each line of which is a set of mutually exclusive words; |
// separates words with the same meaning. Single characters also make otherwise equal words exclude each other: 上半年
// (first half of the year), 下半年 (second half).
var opposites = func() map[string][]member {
	all := map[string][]member{}
	for n, line := range strings.Split(oppositeLines, "\n") {
		for place, group := range strings.Fields(line) {
			for word := range strings.SplitSeq(group, "|") {
				all[word] = append(all[word], member{n, place})
			}
		}
	}
	return all
}()

// member is a word's place in a line of opposites.
type member struct{ line, place int }

const oppositeLines = `上 下
左 右
前 后
内|里 外
高 低
大 小
多 少
长 短
快 慢
早 晚 中
先 后
冷|凉 热|烫 温
干 湿
开 关|停|闭
启 停|关
进|入 出
收 发|付
收|交|缴|付 免
买 卖
借 贷|还
增|加 减
升|涨 降|跌
正 负|反
阴 阳
男 女
父 母
公 私|母
老|旧 新
老 少|幼
真 假
好 坏
优 劣
胜|赢 负|败|输
有 无|没
是 非
首 末|尾
始 终|末
初|始 末|终
东 西 南 北
甲 乙 丙 丁
主 副|次|客|从
顺 逆
纵|竖 横
深 浅
厚 薄
粗 细
轻 重
松 紧
软 硬
强 弱
远 近
宽 窄|严
明|亮 暗
亮 灭|熄
浓 淡
生 熟
咸 甜 酸 苦 辣
存 取
推 拉
插 拔
拿 放
脱 穿
戴 摘
躺 坐 站|立 走 跑
抬 放|压
盈|赚 亏|赔
奖 罚
城 乡
日|昼 夜
春 夏 秋 冬
红 绿 蓝 黄 黑 白 橙 紫 灰
拆 装
全|整 半
单 双
手 机
停 继续
留 丢|扔|删
包 自理
同 异
本 外|他
来 去|回
往 返
已 未|尚
只|仅|才 都|全|均|也
我 你 他|她
我们|我方 你们|贵方 他们
我 您|你们
自己|自行|本人|亲自 别人|他人|人家|对方
这 那
增加|提高|上升|上涨|升高|调高|上调|增长|增大|增多|加大|上浮|抬高 减少|降低|下降|下跌|调低|下调|减小|缩减|变少|下浮|压低 保持|不变|维持
打开|开启|启用|开通|启动|开着|接通|点亮 关闭|停用|禁用|关停|关上|关掉|关着|熄灭|关机
自动 手动|手工|人工
继续|照常|照旧|恢复 停止|停用|停药|中止|终止|暂停|中断|停下
续约|续签|续订|续期|延续 终止|解除|失效|到期
驳回|拒绝|拒收|回绝|否决 受理|批准|通过|同意|接受|许可|采纳
支持|赞成|同意|赞同 反对|驳回|否决
连接|接上|插上|接入 断开|拔掉|拔下|拔出|脱离
锁定|锁上|上锁|冻结|封存 解锁|打开|解冻|解封
保留|保存|留下|留着|存放 删除|清除|丢弃|丢掉|扔掉|销毁|清空
加入|参加|报名 退出|离开|缺席
进入|进来|入场|进场|登机 离开|出去|退场|离场
开始|起始|开头 结束|终了|结尾|收尾
公开|公布|披露 保密|隐藏|封存
免费|免收|减免|豁免|无偿 收费|付费|自费|有偿|计费
自愿|自主|任意 强制|必须|被迫
成功|完成 失败|中断
全部|全额|全数|完全|整个|所有|一律|统统 部分|个别|一半|少数|某些|有些
多数|大多数|大部分|大多 少数|少部分|个别
提前|事先|预先|事前|之前|以前 推迟|延后|逾期|事后|之后|以后|过后
延长|拉长|顺延 缩短|压缩
扩大|放大|扩展|扩充 缩小|收缩
加快|加速|提速 放慢|减慢|减速|放缓
加重|加剧|恶化 减轻|缓解|好转
变大|变强|变高|变多|变长 变小|变弱|变低|变少|变短
变好 变差|变坏
宽松 严格
书面 口头
线上|在线|网上 线下|现场|当面
首次|初次|第一次 再次|二次|重复
临时|暂时|短期 永久|长期|终身|终生
从不|从来不 偶尔|有时 经常|常常|时常|总是|一直|始终|每次|每天
随时 定期|按期|到时
立即|立刻|马上|当场|即刻 稍后|以后|过后|日后
务必|必须|一定 最好|尽量|尽可能
每 个别
空腹|饭前|餐前 饭后|餐后 睡前
冷藏 冷冻 室温|常温
安全 危险
合法 非法|违法
有效 无效
相同|一样|一致|相等 不同|相反|相异
朝上|向上 朝下|向下
单独|各自|分别|分开 共同|一起|一并|合并|同时|统一
直接 间接
主动 被动
真实|属实 虚假
登录 注销|退出
安装|装上 卸载|拆除|拆下|卸下
上传 下载
存入 取出|支取
买入|购买|买进 卖出|出售|卖掉|转让
借入 借出
流入 流出
租用|承租 出租
领取|收取|收到|接收 发放|支付|缴纳|交付|寄出|发出
优于|好于 劣于
早于 晚于
高于|多于|大于|超过|超出 低于|少于|小于|不足
拉开|拧开|松开|解开 拉上|拧紧|系紧|扣紧
竖放|竖着|直立 平放|横放|横着|躺着
仰卧 俯卧|侧卧
顺时针 逆时针
before after
above below
over under
on off
up|upward|upwards down|downward|downwards
inside outside
indoors outdoors
in out
left right
first last
i you he|she
my your his|her
mine yours his|hers
me you him|her
we you they
our your their
ourselves yourselves themselves
this that
these those
only also|all|even
all|every|each|whole|entire|full some|certain half|part|partial none
both neither either
always|constantly never sometimes|occasionally|rarely|seldom
often|frequently|usually never|rarely|seldom
immediately|instantly later|afterwards
increase|rise|raise|grow|gain decrease|fall|lower|reduce|drop|shrink|lose
increases|rises|raises|grows|gains decreases|falls|lowers|reduces|drops|shrinks|loses
increased|rose|raised|grew|higher decreased|fell|lowered|reduced|dropped|lower
open|opened|opens close|closed|closes|shut
start|begin|starts|begins|started|begun stop|end|stops|ends|stopped|ended
accept|accepted|accepts|approve|approved|approves reject|rejected|rejects|decline|declined|declines|refuse|refused|refuses
allow|allowed|allows|permit|permitted|permits forbid|forbidden|forbids|prohibit|prohibited|prohibits
include|includes|included|including exclude|excludes|excluded|excluding
enable|enabled|enables disable|disabled|disables
add|added|adds remove|removed|removes
keep|kept|keeps|retain|retained delete|deleted|deletes|discard|discarded|dispose
lock|locked|locks unlock|unlocked|unlocks
buy|buys|bought|purchase|purchases sell|sells|sold
send|sends|sent receive|receives|received
lend|lends|lent borrow|borrows|borrowed
give|gives|gave take|takes|took
pay|pays|paid receive|receives|collect|collects waive|waives|waived
arrive|arrives depart|departs|leave|leaves
enter|enters leave|leaves|exit|exits
win|wins|won lose|loses|lost
pass|passes|passed fail|fails|failed
push|pushes pull|pulls
import|imports|imported export|exports|exported
plug unplug
tighten|tightens loosen|loosens
heat|heats cool|cools
stand|stands sit|sits lie|lies
join|joins leave|leaves|quit
succeed|succeeds fail|fails
continue|continues stop|stops|pause|pauses|discontinue
extend|extends|lengthen shorten|shortens
common rare
common uncommon
likely unlikely
possible impossible
necessary unnecessary
high|higher|highest low|lower|lowest
large|larger|big|bigger small|smaller
long|longer short|shorter
wide|wider narrow|narrower
deep shallow
more|most less|least|fewer|fewest
much|many little|few
hot|warm cold|cool
wet dry
hard|firm soft
heavy light
light dark
strong weak
early|earlier late|later
old new
full|fully partial|partially|partly empty
automatic|automatically manual|manually
temporary|temporarily permanent|permanently
voluntary|voluntarily compulsory|mandatory
public|publicly private|privately
direct|directly indirect|indirectly
separate|separately joint|jointly together
internal|internally external|externally
north south east west
forward|forwards backward|backwards
clockwise counterclockwise|anticlockwise
upgrade|upgrades downgrade|downgrades
upload|uploads download|downloads
install|installs uninstall|uninstalls|remove|removes
connect|connected|connects disconnect|disconnected|disconnects
right|correct|correctly wrong|incorrect|incorrectly|wrongly
safe|safely dangerous|unsafe
strict|strictly loose|loosely
easy hard|difficult
free charged|paid|payable
same different
better|best worse|worst
near|nearest far|farthest
front|rear back
odd even
raw cooked
alive dead
present absent`

// AreOpposed reports whether two words exclude each other: they are opposites, they differ in a single character and
// those characters are opposites, or one is the other with a negating prefix.
func AreOpposed(a, b string) bool {
	if a == b || a == "" || b == "" {
		return false
	}
	if excludeEachOther(a, b) {
		return true
	}
	if a[0] < 0x80 && b[0] < 0x80 {
		for _, prefix := range [...]string{"un", "in", "im", "ir", "dis", "non", "counter", "anti", "mis"} {
			if a == prefix+b || b == prefix+a {
				return true
			}
		}
		return false
	}
	x, y := []rune(a), []rune(b)
	if len(x) != len(y) || utf8.RuneCountInString(a) < 2 {
		return false
	}
	isFound := false
	for n := range x {
		if x[n] == y[n] {
			continue
		}
		if isFound || !excludeEachOther(string(x[n]), string(y[n])) {
			return false
		}
		isFound = true
	}
	return isFound
}

func excludeEachOther(a, b string) bool {
	for _, n := range opposites[a] {
		for _, m := range opposites[b] {
			if n.line == m.line && n.place != m.place {
				return true
			}
		}
	}
	return false
}
