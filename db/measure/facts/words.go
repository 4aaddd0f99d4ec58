package facts

import (
	"sort"
	"strings"

	"wending/db/measure/passage"
)

// polarity is what a statement does to its predicate.
type polarity uint8

const (
	affirmed polarity = iota
	may
	must
	denied  // 不, 没有, not
	banned  // 不得, must not
	exempt  // 不必, need not
	skipped // no statement: 不过, 不仅, 主要
	turned  // denies a denial: 并不等于
)

func (p polarity) isNegative() bool { return p == denied || p == banned || p == exempt }

func (p polarity) String() string {
	return [...]string{"yes", "may", "must", "not", "must not", "need not", "", ""}[p]
}

// entry is a phrase that states something, or that only looks as if it did.
type entry struct {
	letters  []rune
	polarity polarity
	class    class // of a set of words that exclude each other
	member   string
	kind     Kind
	isLatin  bool
}

var phrases = map[polarity]string{
	skipped: `不过 不仅 不但 不论 不管 无论 不同 不久 不断 不良 不适 不足 不满 未满 不到 不超过 不少于 不低于 不高于 不多于 不大于 不小于 不短于
		不得超过 不得少于 不得低于 不可超过 不能超过 不舒服 不全 不动产 非常 未来 未成年 未成年人 不可抗力 不当 对不起 不客气 差不多 不一定 不只
		不止 不妨 不便 不错 不少 不然 否则 是否 能否 可否 无障碍 没收 除非 不平 不利 不幸 可能 可用 可选 可靠 可见 可撤销 能力 功能 性能 智能
		能量 节能 只能 主要 重要 要求 要点 只要 要么 要是 如要 摘要 要约 应急 应用 相应 对应 反应 供应 适应 响应 效应 应付 应收 应对 不应小于 无效 无息 无线 无论如何 不定期 不锈钢 不透 不及格 不合格 须知 必要 需求 只需 想要 还要 能不能 要不要 可不可以 有没有
		是不是 会不会 不亦 必要时 要注意 需注意 需要注意 请注意 要留意 还要留意 需要留意 要提醒 还要提醒 要提前 能够胜任 万能 才能 可持续 不再赘述
		认可 许可 许可证 可乐 可口 可惜 不妥 并非没有 分别 区别 特别 级别 类别 性别 个别 别人 别的 别墅 识别 鉴别 辨别 差别 判别 别名 告别 派别 别处 别家 别无 无法律 不可避免 无所谓 无穷 无菌 无糖 无油 非处方药 非机动车 非全日制 非工作日 非节假日`,
	turned: `不等于 并不等于 不意味着 并不意味着 不代表 并不代表 不是说 并不是说`,
	may:    `可以 可 能 有权 允许 能够 准许`,
	must:   `应当 应该 应 须 必须 需要 需 务必 请务必`,
	denied: `不 没有 没 未 无 并非 不予 拒绝 不会 不再 不是 非`,
	banned: `不了 不行 不成 不得 不可以 不可 不能够 不能 不许 不准 禁止 严禁 切勿 请勿 勿 不允许 不应当 不应该 不应 不该 不宜 无权 不要 请不要 别 无法 禁用 忌用`,
	exempt: `可以不 不必 无需 无须 不需要 不需 不用 免于 毋须 可以免予 可免予 免予 可不 不必再`,
}

var latinPhrases = map[polarity]string{
	skipped: `not without;not only;no longer than;no later than;no more than;not more than;no less than;not less than;no fewer than;must not exceed;
		not exceed;without prejudice;can be found;may be subject;if you need;need help;may 1;not legal advice;is not legal advice;or without;with or without;no one without;without;no matter;do not hesitate;don't hesitate;
		more than you need;what you need;as needed;you need to know;can help`,
	may:  `may;can;allowed;permitted;allows;could`,
	must: `must;has to;have to;need to;needs to;required to;shall;should`,
	denied: `not;n't;never;no;neither;nor;none;no longer;do not;does not;did not;is not;are not;was not;don't;doesn't;isn't;aren't;
		won't;will not;didn't;unsupported`,
	banned: `must not;may not;cannot;can't;can not;mustn't;should not;shouldn't;shall not;not allowed;not permitted;prohibited;forbidden;
		unable to;impossible;could not;not be allowed;is not allowed;are not allowed;is not possible;isn't possible;not possible`,
	exempt: `do not have to;does not have to;don't have to;doesn't have to;do not need to;does not need to;don't need to;doesn't need to;
		need not;no need to;there is no need to;not necessary;is not necessary;not required;is not required;are not required;not need to`,
}

// sets are words that exclude each other, by kind: members are separated by ;, ways to write one by |.
var sets = []struct {
	kind    Kind
	members string
}{
	{Entity, "违约方|违约的一方|违约者|逾期方;守约方|非违约方|守约的一方"},
	{Entity, "甲方;乙方;丙方"},
	{Entity, "买方|买受人|购买方;卖方|出卖人|销售方"},
	{Entity, "出租人|房东|出租方;承租人|租客|承租方"},
	{Entity, "用人单位|雇主|公司方;劳动者|雇员|员工"},
	{Entity, "原告;被告"},
	{Entity, "债权人;债务人"},
	{Entity, "父亲|爸爸|父方;母亲|妈妈|母方"},
	{Entity, "卖家|商家;买家|收件人"},
	{Entity, "本人;他人|别人|代理人"},
	{Entity, "首套|第一套;二套|第二套"},
	{Entity, "上涨|上升|升高;下跌|下降|降低"},
	{Entity, "红色|红灯;绿色|绿灯;黄色|黄灯;蓝色|蓝灯;橙色;白色|白灯;黑色"},
	{Entity, "red;green;yellow;blue;orange;white;black;amber"},
	{Entity, "根部|底部;顶部|上部"},
	{Entity, "正面;背面|反面"},
	{Entity, "开着|默认开启|默认打开;关着|默认关闭"},
	{Entity, "forward|forwards;backward|backwards"},
	{Entity, "north|northern;south|southern"},
	{Entity, "sender|shipper;recipient|consignee"},
	{Entity, "湿垃圾|厨余垃圾;干垃圾|其他垃圾;可回收物;有害垃圾"},
	{Entity, "中国移动;中国联通;中国电信"},
	{Entity, "男性|男方;女性|女方"},
	{Entity, "有效;无效;可撤销;效力待定"},
	{Entity, "次年|下一年|下年|第二年|翌年;当年|本年|同年"},
	{Entity, "次日|翌日|第二天;当日|当天"},
	{Entity, "次月|下月|下个月|下一个月;当月|本月"},
	{Entity, "饭前|餐前|空腹;饭后|餐后"},
	{Entity, "增加|提高|上调|调高|上浮;减少|降低|下调|调低|下浮"},
	{Entity, "赞成|同意|批准;反对|否决"},
	{Entity, "免费|不收费|免收费;自费|付费"},
	{Entity, "冷水|凉水;开水|热水|沸水;温水"},
	{Entity, "大火|猛火;小火|文火;中火"},
	{Entity, "左侧|左边|左键;右侧|右边|右键"},
	{Entity, "顺时针;逆时针"},
	{Entity, "书面;口头"},
	{Entity, "单方;双方"},
	{Entity, "原件;复印件"},
	{Entity, "全额|全部退还|全部退款|全部退回;部分退"},
	{Entity, "年付|按年;按季|按季度|每季度;按月|月付"},
	{Entity, "landlord|lessor;tenant|lessee"},
	{Entity, "buyer|purchaser;seller|vendor"},
	{Entity, "employer;employee"},
	{Entity, "provider;customer|client"},
	{Entity, "enabled|on by default;disabled|off by default"},
	{Entity, "hot water|boiling water;cold water;lukewarm water"},
	{Entity, "increase|raise|increases;decrease|reduce|lower"},
	{Entity, "clockwise;counterclockwise|anticlockwise"},
	{Entity, "weekdays;weekends"},
	{Entity, "debit;credit card"},
	{Quantifier, "除了|除非另有;包括|包含"},
	{Quantifier, "except|excluding|with the exception of|other than;including|inclusive of"},
	{Quantifier, "所有|全部|一切;部分|个别;除外|之外"},
	{Quantifier, "either party|either side|both parties;only one party"},
	{Quantifier, "every|each|all;some"},
}

// exceptions is the set of 所有 and 除…外.
var exceptions = func() class {
	for i, s := range sets {
		if strings.HasPrefix(s.members, "所有") {
			return classSet + class(i)
		}
	}
	return classSet
}()

var lexicon = func() map[rune][]entry {
	by := map[rune][]entry{}
	put := func(e entry, phrase string) {
		e.letters = []rune(phrase)
		e.isLatin = passage.IsLatin(e.letters[0])
		by[e.letters[0]] = append(by[e.letters[0]], e)
	}
	for p, list := range phrases {
		for _, phrase := range strings.Fields(list) {
			put(entry{polarity: p, class: classPolarity, kind: Polarity}, phrase)
		}
	}
	for p, list := range latinPhrases {
		for _, phrase := range strings.Split(list, ";") {
			put(entry{polarity: p, class: classPolarity, kind: Polarity}, strings.TrimSpace(phrase))
		}
	}
	for _, l := range negatedLimits() {
		put(entry{polarity: skipped, class: classPolarity, kind: Polarity}, l.phrase)
	}
	for i, s := range sets {
		for _, member := range strings.Split(s.members, ";") {
			ways := strings.Split(member, "|")
			for _, way := range ways {
				put(entry{class: classSet + class(i), member: ways[0], kind: s.kind}, way)
			}
		}
	}
	for _, entries := range by {
		sort.Slice(entries, func(i, j int) bool {
			if len(entries[i].letters) != len(entries[j].letters) {
				return len(entries[i].letters) > len(entries[j].letters)
			}
			return entries[i].class > entries[j].class
		})
	}
	return by
}()

// words reads a phrase of the lexicon, and choices.
func (d *document) words(i, to int, isWordStart bool) int {
	r := passage.Lower(d.Runes[i])
	if passage.IsLatin(r) && !isWordStart && (r != 'n' || !d.Has(i, "n't")) {
		return i
	}
	switch {
	case r == '选' && d.At(i+1) != '项' || r == '答' && d.Has(i, "答案"):
		if end := d.choice(i, i+1+int(boolean(r == '答')), to); end > i {
			return end
		}
	case r == '正' && d.Has(i, "正确选项"):
		if end := d.choice(i, i+4, to); end > i {
			return end
		}
	}
	if r == '除' {
		for end := i + 1; end < min(to, i+14); end++ {
			if d.Runes[end] == '外' {
				d.add(fact{Span: passage.Span{From: i, To: end + 1}, kind: Quantifier, class: exceptions, key: "除外", value: "除外"})
				return i + 1
			}
		}
	}
	entries := lexicon[r]
	for k := range entries {
		e := &entries[k]
		end := i + len(e.letters)
		if e.isLatin && d.At(end) == '-' && passage.IsLatin(d.At(end+1)) { // no-store
			continue
		}
		if end > to || !d.hasRunes(i, e.letters) || e.isLatin && passage.IsLatin(d.At(end)) {
			continue
		}
		if e.class != classPolarity {
			d.add(fact{Span: passage.Span{From: i, To: end}, kind: e.kind, class: e.class, key: e.member, value: e.member})
			return end
		}
		if e.isLatin && e.polarity.isNegative() && d.hasWithout(end, to) {
			return end
		}
		if e.polarity == turned {
			d.turnedAt = end
			return end
		}
		if e.polarity == skipped || e.polarity == must && d.isNoun(i) {
			return end
		}
		if e.polarity == may && len(e.letters) == 1 && (passage.IsHan(d.At(i-1)) && strings.ContainsRune("不只才技智效功性职", d.At(i-1))) {
			return end
		}
		d.addPolarity(i, end, e.polarity)
		return end
	}
	return i
}

// hasWithout reports whether a second denial turns an English one round: no one passes without 60 points.
func (d *document) hasWithout(i, to int) bool {
	for limit := min(to, i+3*longestScope); i < limit && !d.isClauseEnd(i); i++ {
		if d.Runes[i] == 'w' && d.Has(i, "without") {
			return true
		}
	}
	return false
}

func (d *document) isNoun(i int) bool { return d.At(i-1) == '供' || d.At(i-1) == '效' }

func (d *document) hasRunes(i int, word []rune) bool {
	for k, r := range word {
		if i+k >= len(d.Runes) || passage.Lower(d.Runes[i+k]) != r {
			return false
		}
	}
	return true
}

// addPolarity notes a statement; a negation right after another one turns it round: 不可以不带.
func (d *document) addPolarity(i, end int, p polarity) {
	if d.turnedAt > 0 && p.isNegative() && i-d.turnedAt <= longestScope {
		d.turnedAt = 0
		return
	}
	if k := len(d.facts) - 1; k >= 0 && d.facts[k].class == classPolarity && i-d.facts[k].To <= 1 && i >= d.facts[k].To {
		last := &d.facts[k]
		switch {
		case last.polarity == banned && p == denied:
			last.polarity, last.To = must, end
			last.key, last.value = must.String(), must.String()
			return
		case last.polarity == may && p == denied:
			last.polarity, last.To = exempt, end
			last.key, last.value = exempt.String(), exempt.String()
			return
		case (last.polarity == must || last.polarity == may) && p.isNegative():
			last.polarity, last.To = banned, end
			last.key, last.value = banned.String(), banned.String()
			return
		case last.polarity == denied && (p == may || p == must):
			last.polarity, last.To = banned, end
			last.key, last.value = banned.String(), banned.String()
			return
		}
	}
	d.add(fact{Span: passage.Span{From: i, To: end}, kind: Polarity, class: classPolarity, key: p.String(), value: p.String(), polarity: p})
}

var verdicts = map[string]string{
	"是": "yes", "是的": "yes", "对": "yes", "对的": "yes", "正确": "yes", "可以": "yes", "能": "yes", "会": "yes", "有": "yes", "支持": "yes", "yes": "yes", "correct": "yes", "true": "yes", "right": "yes",
	"否": "no", "不是": "no", "不对": "no", "错": "no", "错误": "no", "不正确": "no", "不可以": "no", "不能": "no", "不会": "no", "没有": "no", "不行": "no", "不支持": "no", "no": "no", "incorrect": "no", "false": "no", "wrong": "no",
}

// verdict turns clauses of a sentence that are nothing but yes or no into facts.
func (d *document) verdict(n int) {
	s := d.Sentences[n]
	from := s.From
	for i := s.From; i <= s.To; i++ {
		if i < s.To && !d.isClauseEnd(i) {
			continue
		}
		d.verdictOf(n, passage.Span{From: from, To: i})
		from = i + 1
	}
}

func (d *document) verdictOf(n int, clause passage.Span) {
	for clause.From < clause.To && d.Runes[clause.From] == ' ' {
		clause.From++
	}
	for clause.To > clause.From && strings.ContainsRune(" 。.!！", d.Runes[clause.To-1]) {
		clause.To--
	}
	if clause.To-clause.From > 9 || clause.IsEmpty() {
		return
	}
	value, isVerdict := verdicts[strings.ToLower(string(d.Runes[clause.From:clause.To]))]
	if !isVerdict {
		return
	}
	for k := len(d.facts) - 1; k >= 0 && d.facts[k].From >= clause.From; k-- {
		if d.facts[k].From < clause.To {
			d.facts = append(d.facts[:k], d.facts[k+1:]...)
		}
	}
	f := fact{Span: clause, kind: Polarity, class: classVerdict, key: value, value: value, sentence: n, clause: clause}
	at := len(d.facts)
	for at > 0 && d.facts[at-1].From > f.From {
		at--
	}
	d.facts = append(d.facts, fact{})
	copy(d.facts[at+1:], d.facts[at:])
	d.facts[at] = f
	for k := clause.From; k < clause.To; k++ {
		d.taken[k] = true
	}
}
