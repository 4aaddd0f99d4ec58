package cron

import "time"

// Beijing is the time zone of Beijing, UTC+08:00 all year.
var Beijing = time.FixedZone("CST", 8*60*60)

// BeijingMinute formats a time in Beijing time, to the minute, for lists.
func BeijingMinute(t time.Time) string { return t.In(Beijing).Format("2006-01-02 15:04") }

// BeijingSecond formats a time in Beijing time, to the second, for pages.
func BeijingSecond(t time.Time) string { return t.In(Beijing).Format("2006-01-02 15:04:05") }
