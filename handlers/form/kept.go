package form

import (
	"encoding/base64"
	"encoding/json"
	"time"

	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// keptFor is how long sealed secrets in a form can be opened.
const keptFor = time.Hour

// Keeper lets a form carry secrets, sealed, while it is being filled in. The seal binds them to the browser and to the
// origin of the agent's address (empty until the address is valid). Without this, anyone with a copy of the page could
// have the secrets sent to their own server.
type Keeper struct{ Sealer *secret.Sealer }

type kept struct {
	Value json.RawMessage `json:"value"`
	Until time.Time       `json:"until"`
}

func keptOwner(browser, origin string) string { return "form " + browser + " " + origin }

// Keep returns a value, sealed for a hidden field. If sealing fails, it returns an empty text, and the value must be
// typed again.
func (k Keeper) Keep(browser, address string, value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return ""
	}
	sealed, err := k.Sealer.Seal(kept{text, time.Now().Add(keptFor)}, keptOwner(browser, tasks.OriginOf(address)))
	if err != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(sealed)
}

// Open decodes into value a text that Keep returned. It reports false if the text was sealed for another browser or
// origin, or too long ago.
func (k Keeper) Open(browser, address, field string, value any) bool {
	sealed, err := base64.StdEncoding.DecodeString(field)
	if err != nil || len(sealed) == 0 {
		return false
	}
	for _, origin := range []string{tasks.OriginOf(address), ""} {
		var found kept
		if k.Sealer.Open(sealed, keptOwner(browser, origin), &found) == nil && time.Now().Before(found.Until) {
			return json.Unmarshal(found.Value, value) == nil
		}
	}
	return false
}
