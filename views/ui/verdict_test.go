package ui_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/views/ui"
)

// A score never seems to contradict its verdict, and a judge's score is shown on the judge's own scale.
func TestAScoreIsShownBesideItsThreshold(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind, config string
		score        float64
		want         string
	}{
		{"judge", `{}`, 0.59999, "59.999 / 60"},
		{"judge", `{}`, 0.6, "60 / 60"},
		{"judge", `{"threshold":70}`, 0.855, "85.5 / 70"},
		{"judge", `{"threshold":7}`, 0.07, "7 / 7"},
		{"judge", `{}`, 0, "0 / 60"},
		{"similarity", `{}`, 0.7999, "0.7999 / 0.8000"},
		{"similarity", `{"threshold":0.5}`, 0.333333, "0.33 / 0.50"},
		{"expression", `{}`, 0.4, "0.40 / 0.50"},
		{"expression", `{}`, 1, ""},
		{"exact", `{}`, 0, ""},
		{"judge", ``, 0.59999, "59.999"},
	} {
		var config json.RawMessage
		if test.config != "" {
			config = json.RawMessage(test.config)
		}
		require.Equal(t, test.want, ui.ScoreText(test.kind, config, &test.score), "%s %s", test.kind, test.config)
	}
	require.Empty(t, ui.ScoreText("judge", json.RawMessage(`{}`), nil))
}
