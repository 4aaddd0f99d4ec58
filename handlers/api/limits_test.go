package api

import (
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/tasks"
)

// The API's document contains the limits that the use cases check.
func TestTheDocumentNamesTheLimitsOfTasks(t *testing.T) {
	t.Parallel()
	texts := map[string]int{
		"task_name": tasks.MaxNameLength, "agent_api_url": tasks.MaxAddress, "agent_model": tasks.MaxModelLength,
	}
	for _, fields := range []reflect.Type{reflect.TypeFor[taskFields](), reflect.TypeFor[changeFields]()} {
		checked := 0
		for n := range fields.NumField() {
			tag := fields.Field(n).Tag
			name, _, _ := strings.Cut(tag.Get("json"), ",")
			if most, isText := texts[name]; isText {
				require.Equal(t, strconv.Itoa(most), tag.Get("maxLength"), name)
				checked++
			}
			if least, most := tasks.RangeOf(name); most > 0 {
				require.Equal(t, []string{strconv.Itoa(least), strconv.Itoa(most)},
					[]string{tag.Get("minimum"), tag.Get("maximum")}, name)
				checked++
			}
		}
		require.Equal(t, 7, checked)
	}
}
