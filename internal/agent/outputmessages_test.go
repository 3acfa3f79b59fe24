package agent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent"
)

func TestOutputMessages(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		out  string
		want []string
	}{
		"nothing":          {" \n", nil},
		"text":             {"hello\n{not json}\n", []string{`{"role":"assistant","content":"hello\n{not json}"}`}},
		"broken text":      {"a\xffb", []string{`{"role":"assistant","content":"a?b"}`}},
		"JSON lines":       {"warning: x\n{\"a\":1}\r\n\n{\"b\":2}", []string{`{"a":1}`, `{"b":2}`}},
		"a cut first line": {"1}\n{\"a\":1}\n", []string{`{"a":1}`}},
		"too deep a line":  {"{\"a\":1}\n{\"b\":" + strings.Repeat("[", 100) + strings.Repeat("]", 100) + "}\n", []string{`{"a":1}`}},
		"too many values":  {"{\"a\":1}\n{\"b\":[" + strings.Repeat("0,", 200_000) + "0]}\n", []string{`{"a":1}`}},
		"arrays":           {"[1]\n", []string{`{"role":"assistant","content":"[1]"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			var got []string
			for _, m := range agent.OutputMessages([]byte(c.out)) {
				got = append(got, string(m))
			}

			require.Len(t, got, len(c.want))

			for i := range got {
				require.JSONEq(t, c.want[i], got[i])
			}
		})
	}

	require.Len(t, agent.OutputMessages([]byte(strings.Repeat("{}\n", 50_000))), 20_000)
}
