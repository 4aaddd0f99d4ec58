package system

import (
	"strings"

	"wending/views/text"
)

// Browser describes a User-Agent in a few words: the kind of browser and the system.
func Browser(agent string) string {
	find := func(choices ...string) string {
		for n := 0; n < len(choices); n += 2 {
			if strings.Contains(agent, choices[n]) {
				return choices[n+1]
			}
		}
		return ""
	}
	browser := find("Edg", "Edge", "MicroMessenger", "WeChat", "Lark", "Feishu", "DingTalk", "DingTalk", "Firefox",
		"Firefox", "Chrome", "Chrome", "Safari", "Safari")
	system := find("Windows", "Windows", "Android", "Android", "iPhone", "iPhone", "iPad", "iPad", "Mac OS", "macOS",
		"Linux", "Linux")
	if browser == "" {
		return text.Cut(agent, 60)
	}
	return strings.TrimSuffix(browser+" · "+system, " · ")
}
