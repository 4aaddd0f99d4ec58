package claim

import (
	"slices"
	"sort"
	"strings"

	"wending/db/measure/passage"
)

// A Polarity says whether a statement affirms, allows, demands or denies something.
type Polarity uint8

// The polarities.
const (
	Affirmed Polarity = iota
	May
	Must
	Denied  // 不, 没有, not
	Banned  // 不得, must not
	Exempt  // 不必, need not
	skipped // not a statement: 不过 (but), 不仅 (not only), 主要 (mainly)
	turned  // negates a negation: 并不等于 (does not mean)
)

// IsNegative reports whether a statement denies its predicate, or its necessity.
func (p Polarity) IsNegative() bool { return p == Denied || p == Banned || p == Exempt }

func (p Polarity) String() string {
	return [...]string{"yes", "may", "must", "not", "must not", "need not", "", ""}[p]
}

// entry is a phrase that states something, or only appears to.
type entry struct {
	letters  []rune
	polarity Polarity
	class    Class  // ClassPolarity, or the set of mutually exclusive words to which the phrase belongs
	member   string // the first spelling of the set's member
	isLatin  bool
}

var phrases = map[Polarity]string{
	skipped: `不过 不仅 不但 不论 不管 无论 不同 不久 不断 不良 不适 不足 不满 未满 不到 不超过 不少于 不低于 不高于 不多于 不大于 不小于 不短于
		不得超过 不得少于 不得低于 不可超过 不能超过 不舒服 不全 不动产 非常 未来 未成年 未成年人 不可抗力 不当 对不起 不客气 差不多 不一定 不只
		不止 不妨 不便 不错 不少 不然 否则 是否 能否 可否 无障碍 没收 除非 不平 不利 不幸 可能 可用 可选 可靠 可见 可撤销 能力 功能 性能 智能
		能量 节能 只能 主要 重要 要求 要点 只要 要么 要是 如要 摘要 要约 应急 应用 相应 对应 反应 供应 适应 响应 效应 应付 应收 应对 不应小于 无效 无息 无线 无论如何 不定期 不锈钢 不透 不及格 不合格 须知 必要
		需求 只需 想要 还要 能不能 要不要 可不可以 有没有
		是不是 会不会 不亦 必要时 要注意 需注意 需要注意 请注意 要留意 还要留意 需要留意 要提醒 还要提醒 要提前 能够胜任 万能 才能 可持续 不再赘述
		认可 许可 许可证 可乐 可口 可惜 不妥 并非没有 分别 区别 特别 级别 类别 性别 个别 别人 别的 别墅 识别 鉴别 辨别 差别 判别 别名 告别 派别 别处 别家 别无 无法律 不可避免 无所谓 无穷 无菌 无糖 无油
		非处方药 非机动车 非全日制 非工作日 非节假日 非防火期 非高峰 非营业 非法定 非必要 非会员 仍然不行 还是不行 如果不行`,
	turned: `不等于 并不等于 不意味着 并不意味着 不代表 并不代表 不是说 并不是说`,
	May:    `可以 可 能 有权 允许 能够 准许`,
	Must:   `应当 应该 应 须 必须 需要 需 务必 请务必`,
	Denied: `不 没有 没 未 无 并非 不予 拒绝 拒收 拒签 拒付 拒赔 拒载 不会 不再 不是 非`,
	Banned: `不了 不行 不成 不得 不可以 不可 不能够 不能 不许 不准 禁止 严禁 切勿 请勿 勿 不允许 不应当 不应该 不应 不该 不宜 不适合 不适宜 无权 不要 请不要 别 无法 禁用 忌用`,
	Exempt: `可以不 不必 无需 无须 不需要 不需 不用 可以免 可免 免交 免缴 免于 毋须 可以免予 可免予 免予 可不 不必再`,
}

var latinPhrases = map[Polarity]string{
	skipped: `not without;not only;no longer than;no later than;no more than;not more than;no less than;not less than;
		no fewer than;must not exceed;
		not exceed;without prejudice;can be found;may be subject;if you need;need help;may 1;not legal advice;
		is not legal advice;or without;with or without;no one without;without;no matter;do not hesitate;don't hesitate;
		more than you need;what you need;as needed;you need to know;can help`,
	May:  `may;can;allowed;permitted;allows;could`,
	Must: `must;has to;have to;need to;needs to;required to;shall;should`,
	Denied: `not;n't;never;no;neither;nor;none;no longer;do not;does not;did not;is not;are not;was not;don't;doesn't;isn't;aren't;
		won't;will not;didn't;unsupported`,
	Banned: `must not;may not;cannot;can't;can not;mustn't;should not;shouldn't;shall not;not allowed;not permitted;
		prohibited;forbidden;
		unable to;impossible;could not;not be allowed;is not allowed;are not allowed;is not possible;isn't possible;
		not possible`,
	Exempt: `do not have to;does not have to;don't have to;doesn't have to;do not need to;does not need to;
		don't need to;doesn't need to;
		need not;no need to;there is no need to;not necessary;is not necessary;not required;is not required;
		are not required;not need to`,
}

// sets lists sets of mutually exclusive words: ; separates members, and | separates spellings of one member. The last
// sets are quantifiers.
var sets = append([]string{
	"违约方|违约的一方|违约者|逾期方;守约方|非违约方|守约的一方",
	"甲方;乙方;丙方",
	"买方|买受人|购买方;卖方|出卖人|销售方",
	"出租人|房东|出租方;承租人|租客|承租方",
	"用人单位|雇主|公司方;劳动者|雇员|员工",
	"原告;被告",
	"债权人;债务人",
	"父亲|爸爸|父方;母亲|妈妈|母方",
	"卖家|商家;买家",
	"寄件人|寄件方|发件人|发货人;收件人|收件方|收货人",
	"本人;他人|别人|代理人",
	"首套|第一套;二套|第二套",
	"上涨|上升|升高;下跌|下降|降低",
	"红色|红灯;绿色|绿灯;黄色|黄灯;蓝色|蓝灯;橙色;白色|白灯;黑色",
	"red;green;yellow;blue;orange;white;black;amber",
	"根部|底部;顶部|上部",
	"正面;背面|反面",
	"开着|默认开启|默认打开;关着|默认关闭",
	"forward|forwards;backward|backwards",
	"north|northern;south|southern",
	"sender|shipper;recipient|consignee",
	"湿垃圾|厨余垃圾;干垃圾|其他垃圾;可回收物;有害垃圾",
	"中国移动;中国联通;中国电信",
	"男性|男方;女性|女方",
	"有效;无效;可撤销;效力待定",
	"次年|下一年|下年|第二年|翌年;当年|本年|同年",
	"次日|翌日|第二天;当日|当天",
	"次月|下月|下个月|下一个月;当月|本月",
	"饭前|餐前|空腹;饭后|餐后",
	"增加|提高|上调|调高|上浮;减少|降低|下调|调低|下浮",
	"赞成|同意|批准;反对|否决",
	"免费|不收费|免收费;自费|付费",
	"冷水|凉水;开水|热水|沸水;温水",
	"大火|猛火;小火|文火;中火",
	"左侧|左边|左键;右侧|右边|右键",
	"顺时针;逆时针",
	"书面;口头",
	"单方;双方",
	"原件;复印件",
	"全额|全部退还|全部退款|全部退回;部分退",
	"年付|按年;按季|按季度|每季度;按月|月付",
	"landlord|lessor;tenant|lessee",
	"buyer|purchaser;seller|vendor",
	"employer;employee",
	"provider;customer|client",
	"enabled|on by default;disabled|off by default",
	"hot water|boiling water;cold water;lukewarm water",
	"increase|raise|increases;decrease|reduce|lower",
	"clockwise;counterclockwise|anticlockwise",
	"weekdays;weekends",
	"debit;credit card",
}, quantifiers...)

var quantifiers = []string{
	"除了|除非另有;包括|包含",
	"except|excluding|with the exception of|other than;including|inclusive of",
	"所有|全部|一切;部分|个别;除外|之外",
	"either party|either side|both parties;only one party",
	"every|each|all;some",
}

// Classes is the number of classes.
var Classes = int(ClassSet) + len(sets)

// IsQuantifier reports whether the words of a class quantify a statement: all, some, none.
func (c Class) IsQuantifier() bool { return int(c) >= int(ClassSet)+len(sets)-len(quantifiers) }

// exceptions is the set of 所有 (all) and 除…外 (except).
var exceptions = func() Class {
	for i, s := range sets {
		if strings.HasPrefix(s, "所有") {
			return ClassSet + Class(i)
		}
	}
	return ClassSet
}()

// entriesOf returns the phrases that begin with the character r.
func entriesOf(r rune) []entry {
	if r < 0x80 {
		return latinLexicon[r]
	}
	if !passage.IsHan(r) || beginnings[(r-0x3400)>>6]&(1<<(r&63)) == 0 {
		return nil
	}
	return lexicon[r]
}

// latinLexicon holds the phrases that begin with a character below 0x80, indexed by that character.
var latinLexicon = func() (all [0x80][]entry) {
	for r, entries := range lexicon {
		if r < 0x80 {
			all[r] = entries
		}
	}
	return all
}()

// beginnings has a bit for each Chinese character with which a phrase begins.
var beginnings = func() (all [(0xA000 - 0x3400) >> 6]uint64) {
	for r := range lexicon {
		if passage.IsHan(r) {
			all[(r-0x3400)>>6] |= 1 << (r & 63)
		}
	}
	return all
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
			put(entry{polarity: p, class: ClassPolarity}, phrase)
		}
	}
	for p, list := range latinPhrases {
		for _, phrase := range strings.Split(list, ";") {
			put(entry{polarity: p, class: ClassPolarity}, strings.TrimSpace(phrase))
		}
	}
	for _, l := range negatedLimits() {
		put(entry{polarity: skipped, class: ClassPolarity}, l.phrase)
	}
	for i, s := range sets {
		for _, member := range strings.Split(s, ";") {
			ways := strings.Split(member, "|")
			for _, way := range ways {
				put(entry{class: ClassSet + Class(i), member: ways[0]}, way)
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

// words reads a phrase of the lexicon or a choice at i, and returns the position after it; i if there is none. Phrases
// that state nothing add no claim.
func (d *Document) words(i, to int, isWordStart bool) int {
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
				d.add(Claim{Span: passage.Span{From: i, To: end + 1}, Class: exceptions, Key: "除外", Value: "除外"})
				return i + 1
			}
		}
	}
	entries := entriesOf(r)
	for k := range entries {
		e := &entries[k]
		end := i + len(e.letters)
		if e.isLatin && d.At(end) == '-' && passage.IsLatin(d.At(end+1)) { // no-store denies nothing
			continue
		}
		if end > to || !d.hasRunes(i, e.letters) || e.isLatin && passage.IsLatin(d.At(end)) {
			continue
		}
		if e.class != ClassPolarity {
			d.add(Claim{Span: passage.Span{From: i, To: end}, Class: e.class, Key: e.member, Value: e.member})
			return end
		}
		if e.isLatin && e.polarity.IsNegative() && d.hasWithout(end, to) {
			return end
		}
		if e.polarity == turned {
			d.turnedAt = end
			return end
		}
		if e.polarity == skipped || e.polarity == Must && d.isNoun(i) {
			return end
		}
		if e.polarity == May && len(e.letters) == 1 &&
			(passage.IsHan(d.At(i-1)) && strings.ContainsRune("不只才技智效功性职", d.At(i-1))) {
			return end
		}
		d.addPolarity(i, end, e.polarity)
		return end
	}
	return i
}

// hasWithout reports whether a second negation reverses an English one: no one passes without 60 points.
func (d *Document) hasWithout(i, to int) bool {
	for limit := min(to, i+3*LongestScope); i < limit && !d.IsClauseEnd(i); i++ {
		if d.Runes[i] == 'w' && d.Has(i, "without") {
			return true
		}
	}
	return false
}

func (d *Document) isNoun(i int) bool { return d.At(i-1) == '供' || d.At(i-1) == '效' }

func (d *Document) hasRunes(i int, word []rune) bool {
	for k, r := range word {
		if i+k >= len(d.Runes) || passage.Lower(d.Runes[i+k]) != r {
			return false
		}
	}
	return true
}

// LongestScope is the maximum length, in characters, of what a negation denies.
const LongestScope = 14

// isUndone reports whether the ban at i, which ends its clause, reverses the denial before it, so that the two demand
// something: 没有附图是不行的 (drawings are required), 非去不可 (it is necessary to go).
func (d *Document) isUndone(denial *Claim, i, end int) bool {
	if denial.Polarity != Denied || i <= denial.To || i-denial.To > LongestScope ||
		!d.Has(i, "不行") && !d.Has(i, "不成") && !d.Has(i, "不可") {
		return false
	}
	for k := denial.To; k < i; k++ {
		if d.IsClauseEnd(k) || d.Runes[k] == '就' { // 没有号就不行 (without a number, it fails) states a consequence
			return false
		}
	}
	if d.At(end) == '的' {
		end++
	}
	return end >= len(d.Runes) || d.IsClauseEnd(end) || strings.ContainsRune("。；;！!？?、.\n ", d.Runes[end])
}

// become changes the polarity of a claim and extends the claim to end.
func (c *Claim) become(p Polarity, end int) {
	c.Polarity, c.To, c.Key, c.Value = p, end, p.String(), p.String()
}

// addPolarity adds a statement; a negation directly after another one reverses it: 不可以不带 (must be brought).
func (d *Document) addPolarity(i, end int, p Polarity) {
	if d.turnedAt > 0 && p.IsNegative() && i-d.turnedAt <= LongestScope {
		d.turnedAt = 0
		return
	}
	k := len(d.Claims) - 1
	if k >= 0 && d.Claims[k].Class == ClassPolarity && p == Banned && d.isUndone(&d.Claims[k], i, end) {
		d.Claims[k].become(Must, end)
		return
	}
	if k >= 0 && d.Claims[k].Class == ClassPolarity && i-d.Claims[k].To <= 1 && i >= d.Claims[k].To {
		last := &d.Claims[k]
		switch {
		case last.Polarity == Banned && p == Denied:
			last.become(Must, end)
			return
		case last.Polarity == May && p == Denied:
			last.become(Exempt, end)
			return
		case (last.Polarity == Must || last.Polarity == May) && p.IsNegative():
			last.become(Banned, end)
			return
		case last.Polarity == Denied && (p == May || p == Must):
			last.become(Banned, end)
			return
		}
	}
	d.add(Claim{Span: passage.Span{From: i, To: end}, Class: ClassPolarity, Key: p.String(), Value: p.String(),
		Polarity: p})
}

var verdicts = map[string]string{
	"是": "yes", "是的": "yes", "对": "yes", "对的": "yes", "正确": "yes", "可以": "yes", "能": "yes", "会": "yes", "有": "yes",
	"支持": "yes", "yes": "yes", "correct": "yes", "true": "yes", "right": "yes",
	"否": "no", "不是": "no", "不对": "no", "错": "no", "错误": "no", "不正确": "no", "不可以": "no", "不能": "no", "不会": "no", "没有": "no",
	"不行": "no", "不支持": "no", "no": "no", "incorrect": "no", "false": "no", "wrong": "no",
}

// verdictLetters are the characters with which a verdict can begin.
const verdictLetters = "是对正可能会有支否不错没yctrnifw"

// verdict turns clauses that consist only of yes or no into claims, which replace all other claims of these clauses.
// It goes through the sentence's claims once, because a sentence may have thousands of such clauses.
func (d *Document) verdict(n int) {
	s := d.Sentences[n]
	from := s.From
	var found []Claim
	for i := s.From; i <= s.To; i++ {
		if i < s.To && !d.IsClauseEnd(i) {
			continue
		}
		if f, isVerdict := d.verdictOf(n, passage.Span{From: from, To: i}); isVerdict {
			found = append(found, f)
		}
		from = i + 1
	}
	if len(found) == 0 {
		return
	}
	first := len(d.Claims)
	for first > 0 && d.Claims[first-1].From >= found[0].From {
		first--
	}
	behind := slices.Clone(d.Claims[first:])
	d.Claims = d.Claims[:first]
	replacedTo := 0
	for _, f := range behind {
		for len(found) > 0 && found[0].From <= f.From {
			replacedTo = found[0].To
			d.Claims, found = append(d.Claims, found[0]), found[1:]
		}
		if f.From >= replacedTo {
			d.Claims = append(d.Claims, f)
		}
	}
	d.Claims = append(d.Claims, found...)
}

// verdictOf returns the claim of a clause that consists only of yes or no, and marks its characters as taken.
func (d *Document) verdictOf(n int, clause passage.Span) (f Claim, isVerdict bool) {
	for clause.From < clause.To && d.Runes[clause.From] == ' ' {
		clause.From++
	}
	for clause.To > clause.From && strings.ContainsRune(" 。.!！", d.Runes[clause.To-1]) {
		clause.To--
	}
	if clause.To-clause.From > 9 || clause.IsEmpty() ||
		!strings.ContainsRune(verdictLetters, passage.Lower(d.Runes[clause.From])) {
		return f, false
	}
	value, isVerdict := verdicts[strings.ToLower(string(d.Runes[clause.From:clause.To]))]
	if !isVerdict {
		return f, false
	}
	for k := clause.From; k < clause.To; k++ {
		d.Taken[k] = true
	}
	return Claim{Span: clause, Class: ClassVerdict, Key: value, Value: value, Sentence: n, Clause: clause}, true
}
