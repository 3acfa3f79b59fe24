package render_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// framings returns the legal ways to write an event; data is JSON.
func framings() map[string]func(data string) string {
	return map[string]func(string) string{
		"as engines do":    func(data string) string { return "data: " + data + "\n\n" },
		"no space":         func(data string) string { return "data:" + data + "\n\n" },
		"CRLF":             func(data string) string { return "data: " + data + "\r\n\r\n" },
		"CR":               func(data string) string { return "data: " + data + "\r\r" },
		"other fields":     func(data string) string { return "event: x\nid: 7\nretry: 10\ndata: " + data + "\nfoo: bar\n\n" },
		"comments":         func(data string) string { return ": a\n\n:b\ndata: " + data + "\n: data: c\n\n" },
		"lines":            func(data string) string { return "event: x\n" + inLines("data: ", data, "\n") + "id: 7\n\n" },
		"lines with CRLF":  func(data string) string { return inLines("data:", data, "\r\n") + "\r\n" },
		"lines with CR":    func(data string) string { return inLines("data: ", data, "\r") + "\r" },
		"lines, commented": func(data string) string { return inLines(": data: x\nid: 7\ndata: ", data, "\n") + "\n" },
	}
}

// inLines breaks JSON wherever a line break is legal and puts the field's name before each line.
func inLines(field, data, eol string) string {
	var pretty bytes.Buffer
	if json.Indent(&pretty, []byte(data), "", " ") != nil {
		// not JSON: the end mark
		return field + data + eol
	}

	var out strings.Builder
	for line := range strings.Lines(pretty.String() + "\n") {
		out.WriteString(field + strings.TrimSuffix(line, "\n") + eol)
	}

	return out.String()
}

// dataOf reads a stream as the standard defines it. It returns the data of each event, compacted if it is JSON.
func dataOf(stream string) []string {
	var all, lines []string

	stream = strings.TrimPrefix(stream, "\ufeff")
	for _, line := range regexp.MustCompile(`\r\n|\r|\n`).Split(stream, -1) {
		value, ok := strings.CutPrefix(line, "data:")
		switch {
		case ok:
			lines = append(lines, strings.TrimPrefix(value, " "))
		case line == "" && len(lines) > 0:
			var compact bytes.Buffer

			data := strings.Join(lines, "\n")
			if json.Compact(&compact, []byte(data)) == nil {
				data = compact.String()
			}

			all, lines = append(all, data), nil
		}
	}

	return all
}

// The framing of a stream affects neither what is captured nor what a view removes.
func TestFramings(t *testing.T) {
	t.Parallel()

	for name, frame := range framings() {
		for _, begin := range []string{"", "\ufeff"} {
			var raw strings.Builder
			for _, data := range dataOf(vllmStream) {
				raw.WriteString(frame(data))
			}

			stream := begin + raw.String()
			for _, n := range []int{1, 7, 1 << 20} {
				s := read(t, stream, n)
				require.True(t, s.Done(), name)
				require.Equal(t, "stop", s.FinishReason, name)
				require.Equal(t, []int32{1, 2, 3}, s.PromptTokenIDs, name)
				require.Equal(t, []int32{10, 11, 12}, s.TokenIDs, name)
				require.Equal(t, []float64{-0.25, -0.15, 0}, s.Logprobs, name)
				requireSpan(t, s)
			}

			for _, v := range []render.View{{}, {Logprobs: true, Top: 1}, {IDs: true, Usage: true}, render.All()} {
				seen := string(v.Of([]byte(stream)))
				require.Equal(t, dataOf(string(v.Of([]byte(vllmStream)))), dataOf(seen), "%s %+v", name, v)
			}
		}
	}
}

// An event from which a view removes nothing stays unchanged. An event of very many lines is read in one pass.
func TestEventsOfLines(t *testing.T) {
	t.Parallel()

	plain := ": c\nid: 1\ndata: {\"choices\":[\ndata: ]}\nid: 2\n\n"
	require.Equal(t, plain, string(render.View{}.Of([]byte(plain))))
	require.Equal(
		t,
		"id: 1\ndata: {\"choices\":[{}]}\nid: 2\n\n",
		string(
			render.View{}.Of([]byte("id: 1\ndata: {\"choices\":[{\ndata: \"token_ids\":[1,\nid: 2\ndata: 2]}]}\n\n")),
		),
	)

	many := "data: {\"choices\":[{\"finish_reason\":\"stop\"}]\n" + strings.Repeat("data: \n", 1<<20) + "data: }\n\n"
	require.Equal(t, "stop", read(t, many, 1<<16).FinishReason)
}

// The content of an event does not depend on its framing.
func FuzzFraming(f *testing.F) {
	for _, data := range dataOf(vllmStream) {
		f.Add([]byte(data))
	}

	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) {
			return
		}

		var compact bytes.Buffer
		require.NoError(t, json.Compact(&compact, data))

		one := "data: " + compact.String() + "\n\n"
		for name, frame := range framings() {
			raw := frame(compact.String())
			require.Equal(t, event(one), event(raw), name)

			for _, v := range []render.View{{}, {Logprobs: true, Top: 1}} {
				require.Equal(t, dataOf(string(v.Of([]byte(one)))), dataOf(string(v.Of([]byte(raw)))), name)
			}
		}
	})
}

// event returns what is read from a stream of one event, as far as it can be compared.
func event(raw string) []any {
	s := reply.NewStream(&reply.Reply{})
	copy(s.Room(len(raw)), raw)

	err := s.Advance(len(raw))
	if err == nil {
		err = s.Close()
	}

	return []any{err == nil, s.FinishReason, s.TokenIDs, s.PromptTokenIDs, len(s.Logprobs), s.Usage, s.ModelVersion}
}
