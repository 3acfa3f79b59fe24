package formats_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// A call with the same messages as the previous one, for instance after an undelivered reply, adds no message twice.
func TestRepeatedCallAddsNoMessages(t *testing.T) {
	t.Parallel()

	const opening = `{"role":"system","content":"s"},{"role":"user","content":"u"}`

	turn := func(n int, messages, content string) string {
		return fmt.Sprintf(
			`{"turn":%d,"kind":"agent","delivered":true,"request":{"messages":[%s]},"response":{"choices":[{"message":{"role":"assistant","content":%q}}]}}`+"\n",
			n,
			messages,
			content,
		)
	}
	lost := strings.Replace(turn(1, opening, "lost"), `"delivered":true`, `"delivered":false`, 1)
	trace := lost + turn(1, opening, "one") + turn(2, opening, "two") +
		turn(3, opening+`,{"role":"assistant","content":"two"},{"role":"user","content":"more"}`, "three") +
		turn(4, `{"role":"system","content":"s"},{"role":"user","content":"summary"}`, "four")
	got, err := formats.ReadATIF(strings.NewReader(trace), "r")
	require.NoError(t, err)

	var said []string
	for _, s := range got.Steps {
		said = append(said, s.Source+" "+s.Message)
	}

	require.Equal(
		t,
		[]string{
			"system s",
			"user u",
			"agent one",
			"agent two",
			"user more",
			"agent three",
			"system s",
			"user summary",
			"agent four",
		},
		said,
	)
}
