package claim

import (
	"strconv"
	"strings"

	"wending/db/measure/passage"
)

// Agrees reports whether two claims state the same value.
func (f *Claim) Agrees(y *Claim) bool {
	if f.isTransfer() && y.isTransfer() { // 500M, 500 Mbps
		return f.Raw == y.Raw
	}
	if f.Class != y.Class { // a number that omits its unit
		return (f.IsBare() || y.IsBare()) && (f.Raw == y.Raw || f.Raw == inMonths(y) || y.Raw == inMonths(f))
	}
	switch f.Class {
	case ClassDate:
		return f.date.agrees(y.date)
	case ClassTime:
		return f.Key == y.Key || (f.isEitherHalf || y.isEitherHalf) && isHalfDayLater(f.Key, y.Key)
	case ClassCount:
		return (f.Key == y.Key || f.isNextTo(y) || y.isNextTo(f)) && (f.Unit == y.Unit || f.isUncounted() || y.isUncounted())
	case classMass, classVolume:
		return f.Key == y.Key && f.Unit == y.Unit
	case ClassCitation:
		return f.Key == y.Key || strings.HasPrefix(f.Key, y.Key+"-") || strings.HasPrefix(y.Key, f.Key+"-")
	case ClassDuration:
		return f.Key == y.Key || f.isHalfMonth() && y.isHalfMonth()
	case ClassMoney:
		return f.Key == y.Key || (f.Unit == cents || y.Unit == cents) &&
			strings.TrimSuffix(f.Key, f.Unit) == strings.TrimSuffix(y.Key, y.Unit)
	case ClassPercent:
		return f.Key == y.Key
	}
	return f.Key == y.Key && f.Unit == y.Unit
}

// inMonths returns a duration as a number of months, or "-", which no number equals, if it is not in months.
func inMonths(f *Claim) string {
	number, isInMonths := strings.CutSuffix(f.Key, "month")
	if !isInMonths {
		return "-"
	}
	return number
}

// isNextTo reports whether the closed limit y is, for integers, the same as the open limit f: more than 7 is 8 or
// more.
func (f *Claim) isNextTo(y *Claim) bool {
	step := 0.0
	switch {
	case f.Bound == MoreThan && y.Bound == AtLeast:
		step = 1
	case f.Bound == LessThan && (y.Bound == AtMost || y.Bound == Exact):
		step = -1
	default:
		return false
	}
	return f.per == "" && y.per == "" && f.Raw != "" && y.Raw != "" && !strings.Contains(f.Raw, ".") &&
		f.amount+step == y.amount
}

// isHalfDayLater reports whether two times are twelve hours apart.
func isHalfDayLater(x, y string) bool {
	if x > y {
		x, y = y, x
	}
	if len(x) != 5 || x[2:] != y[2:] {
		return false
	}
	hour := func(s string) int { return int(s[0]-'0')*10 + int(s[1]-'0') }
	return hour(y)-hour(x) == 12
}

// isHalfMonth reports whether a duration is half a month (半个月) or 15 days, which count as the same.
func (f *Claim) isHalfMonth() bool { return f.Key == "0.5month" || f.Key == "1296000s" }

// isTransfer reports whether a quantity can be a data rate: 500 Mbps is often written as 500M.
func (f *Claim) isTransfer() bool { return f.Class == classSpeed || f.Unit == "MB" && f.isShort }

// isUncounted reports whether a number counts things without naming them: 32, 32 个.
func (f *Claim) isUncounted() bool { return f.Unit == "" || f.Unit == "个" }

// IsBare reports whether a claim is a number without a unit.
func (f *Claim) IsBare() bool { return f.Class == ClassCount && f.Unit == "" && f.Raw != "" }

// IsName reports whether a claim names one thing: a code, an address, a version.
func (f *Claim) IsName() bool {
	return f.Class == ClassCode || f.Class == ClassURL || f.Class == ClassVersion
}

// AreFarApart reports whether one of two amounts is many times the other: they are unlikely to be about the same
// thing.
func AreFarApart(x, y *Claim) bool {
	less, more := x.amount, y.amount
	if x.Class == y.Class && x.Unit == y.Unit {
		less, more = x.inUnit, y.inUnit
	}
	if less > more {
		less, more = more, less
	}
	return (x.Unit == y.Unit || x.Class != y.Class) && more > 50*less
}

// Amount returns the number as written, without its unit; 0 if the claim is not a quantity.
func (f *Claim) Amount() float64 { return f.amount }

// parseAmounts stores the parsed amounts of a quantity, because they are compared many times.
func (f *Claim) parseAmounts() {
	if f.Class >= ClassDate {
		return
	}
	end := 0
	for end < len(f.Key) && (passage.IsDigit(rune(f.Key[end])) || f.Key[end] == '.' || f.Key[end] == '-' && end == 0) {
		end++
	}
	var err error
	if f.inUnit, err = strconv.ParseFloat(f.Key[:end], 64); err != nil {
		f.inUnit = 0
	}
	if f.amount = f.inUnit; f.Raw == "" || f.Raw == f.Key[:end] {
		return
	}
	if f.amount, err = strconv.ParseFloat(f.Raw, 64); err != nil {
		f.amount = 0
	}
}

// Token returns a hash that stands for the claim in the context of another claim; it is never 0.
func (f *Claim) Token() uint32 {
	h := uint32(f.Class)*31 + 7
	for i := range len(f.Key) {
		h = (h ^ uint32(f.Key[i])) * 16777619
	}
	return h | 1
}
