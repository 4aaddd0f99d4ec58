// Package beijing writes times as pages, reports and the API show them: Beijing time. The database keeps UTC.
package beijing

import "time"

// Zone is Beijing time, UTC+08:00 all year.
var Zone = time.FixedZone("CST", 8*60*60)

// RFC3339 writes a time to the second, for reports and the API.
func RFC3339(t time.Time) string { return t.In(Zone).Format(time.RFC3339) }

// Minute writes a time to the minute, for lists.
func Minute(t time.Time) string { return t.In(Zone).Format("2006-01-02 15:04") }

// Second writes a time to the second, for pages.
func Second(t time.Time) string { return t.In(Zone).Format("2006-01-02 15:04:05") }
