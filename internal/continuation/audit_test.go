package continuation_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/continuation"
)

// vocabulary gives each word an id. Words with a "!" end a reply.
type vocabulary struct {
	mu    sync.Mutex
	words []string
}

func (v *vocabulary) ids(text string) []int32 {
	v.mu.Lock()
	defer v.mu.Unlock()

	var ids []int32

	for word := range strings.FieldsSeq(text) {
		at := slices.Index(v.words, word)
		if at < 0 {
			at, v.words = len(v.words), append(v.words, word)
		}

		ids = append(ids, int32(at))
	}

	return ids
}

// chain is a conversation of an opening, and pairs of the end of a reply and what follows it. The last two words of a
// prompt are loose.
func (v *vocabulary) chain(opening string, links ...string) continuation.Chain {
	c := continuation.Chain{Opening: v.ids(opening)}

	for n := 0; n < len(links); n += 2 {
		end := continuation.End{Last: v.ids(links[n])[0], Stopped: strings.HasSuffix(links[n], "!")}
		c = c.With(continuation.Link{End: end, More: v.ids(links[n+1]), Loose: 2})
	}

	return c
}

// Only replies may differ from what the template shows, and the beginning of a reply in front of one.
func TestAudit(t *testing.T) {
	t.Parallel()

	v := &vocabulary{}
	c := v.chain("user: go end! bot: think {", "end!", "nl user: one end! bot: think {", "end!", "nl user: two end! bot: think {")

	for name, one := range map[string]struct {
		rendered string
		ok       bool
	}{
		"as sampled":             {"user: go end! bot: think { a end! nl user: one end! bot: think { b end! nl user: two end! bot: think {", true},
		"respelled replies":      {"user: go end! bot: x y z end! nl user: one end! bot: end! nl user: two end! bot: think {", true},
		"changed beginning":      {"system: go end! bot: a end! nl user: one end! bot: b end! nl user: two end! bot: think {", false},
		"changed result":         {"user: go end! bot: a end! nl user: … end! bot: b end! nl user: two end! bot: think {", false},
		"text before an end":     {"user: go end! bot: a end! nl user: one old end! bot: b end! nl user: two end! bot: think {", false},
		"text behind an end":     {"user: go end! bot: a end! nl user: one end! old bot: b end! nl user: two end! bot: think {", false},
		"text behind the first":  {"user: go end! old bot: a end! nl user: one end! bot: b end! nl user: two end! bot: think {", false},
		"text behind a reply":    {"user: go end! bot: a end! old nl user: one end! bot: b end! nl user: two end! bot: think {", false},
		"a message in a reply":   {"user: go end! bot: a end! b end! nl user: one end! bot: b end! nl user: two end! bot: think {", false},
		"no reply":               {"user: go end! nl user: one end! bot: b end! nl user: two end! bot: think {", false},
		"another last prompt":    {"user: go end! bot: a end! nl user: one end! bot: b end! nl user: two end! bot: speak {", false},
		"more behind the prompt": {"user: go end! bot: a end! nl user: one end! bot: b end! nl user: two end! bot: think { {", false},
		"cut off":                {"user: go end! bot: a end! nl user: one end!", false},
		"empty":                  {"", false},
	} {
		err := c.Audit(v.ids(one.rendered))
		if one.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, "audit: ", name)
		}
	}

	require.NoError(t, v.chain("user: go").Audit(nil), "without a reply there is nothing to compare")
}

// A reply that was cut off has no token at its end.
func TestAuditOfACutOffReply(t *testing.T) {
	t.Parallel()

	v := &vocabulary{}
	c := v.chain("user: go end! bot: think {", "cut", "end! nl user: one end! bot: think {", "end!", "nl user: two end! bot: think {")

	require.NoError(t, c.Audit(v.ids(
		"user: go end! bot: a cut end! nl user: one end! bot: b end! nl user: two end! bot: think {",
	)))
	require.Error(t, c.Audit(v.ids(
		"user: go end! bot: a cut end! nl user: other end! bot: b end! nl user: two end! bot: think {",
	)))
	require.Error(t, c.Audit(v.ids(
		"user: go end! bot: a cut end! nl user: one end! old bot: b end! nl user: two end! bot: think {",
	)))
}

// Whatever the replies are, the audit accepts the template's own prompt, and refuses it with one token more, less or
// changed outside the replies.
func FuzzAudit(f *testing.F) {
	f.Add([]byte("go|one|two"), []byte("a|b"), uint8(3), true)
	f.Add([]byte("x||x"), []byte("|"), uint8(9), false)

	f.Fuzz(func(t *testing.T, said, replied []byte, at uint8, loose bool) {
		const end, user, bot, thought, changed = 1000, 1001, 1002, 1003, 1004

		messages, replies := parts(said), parts(replied)
		if len(messages) < 2 || len(replies) < len(messages)-1 {
			t.Skip()
		}

		prompt := func(text []int32) []int32 { return slices.Concat([]int32{user}, text, []int32{end, bot}) }
		begin, n := []int32{}, 0

		if loose {
			begin, n = []int32{thought}, 1
		}

		c := continuation.Chain{Opening: slices.Concat(prompt(messages[0]), begin)}
		rendered := prompt(messages[0])
		context := len(rendered)

		for i, m := range messages[1:] {
			c = c.With(continuation.Link{
				End:   continuation.End{Last: end, Stopped: true},
				More:  slices.Concat(prompt(m), begin),
				Loose: n,
			})
			rendered = slices.Concat(rendered, replies[i], []int32{end}, prompt(m))
		}

		rendered = append(rendered, begin...)
		require.NoError(t, c.Audit(rendered))

		// in the first message, and the end of the prompt
		place := int(at) % context

		other := slices.Clone(rendered)
		other[place] = changed
		require.Error(t, c.Audit(other))
		require.Error(t, c.Audit(slices.Insert(slices.Clone(rendered), place, changed)))
		require.Error(t, c.Audit(rendered[:len(rendered)-1]))
		require.Error(t, c.Audit(append(slices.Clone(rendered), changed)))
	})
}

// parts are the texts between bars.
func parts(raw []byte) [][]int32 {
	var all [][]int32

	for part := range strings.SplitSeq(string(raw), "|") {
		var ids []int32
		for _, b := range []byte(part) {
			ids = append(ids, int32(b))
		}

		all = append(all, ids)
	}

	return all
}

// What a template has after a reply begins behind the token with which the model stopped, whichever part of the
// template's end that is.
func TestContinue(t *testing.T) {
	t.Parallel()

	add := []json.RawMessage{json.RawMessage(`{"role":"user","content":"next"}`)}

	for name, one := range map[string]struct {
		// of a message, and of the beginning of a reply
		message, begin string
		end            continuation.End
		stop           string
		more           string
		loose          int
		why            string
	}{
		"one token":         {"ROLE: TEXT end nl", "bot:", continuation.End{Stopped: true}, "end", "nl user: next end nl bot:", 0, ""},
		"beginning of more": {"ROLE: TEXT end nl", "bot: think", continuation.End{Stopped: true}, "end", "nl user: next end nl bot: think", 1, ""},
		"several":           {"ROLE: TEXT close end nl", "bot:", continuation.End{Stopped: true}, "end", "nl user: next close end nl bot:", 0, ""},
		"other token":       {"ROLE: TEXT end nl", "bot:", continuation.End{Stopped: true}, "over", "", 0, "stop_not_found"},
		"no text":           {"ROLE: end", "bot:", continuation.End{Stopped: true}, "end", "", 0, "no_common_end"},
		"cut off":           {"ROLE: TEXT end", "bot:", continuation.End{}, "x", "end user: next end bot:", 0, ""},
		"in a thought":      {"ROLE: TEXT end", "bot: think", continuation.End{}, "x", "", 0, "truncated"},
		"after one":         {"ROLE: TEXT end", "bot: think", continuation.End{Closes: true}, "x", "end user: next end bot: think", 1, ""},
		"in its own":        {"ROLE: TEXT end", "bot:", continuation.End{Opens: true}, "x", "", 0, "truncated"},
	} {
		v := &vocabulary{}
		render := func(_ context.Context, messages []json.RawMessage) ([]int32, error) {
			var all []string

			for _, raw := range messages {
				var m struct{ Role, Content string }
				if err := json.Unmarshal(raw, &m); err != nil {
					return nil, err
				}

				role := strings.ReplaceAll(m.Role, "assistant", "bot")
				all = append(all, strings.NewReplacer("ROLE", role, "TEXT", m.Content).Replace(one.message))
			}

			return v.ids(strings.Join(append(all, one.begin), " ")), nil
		}

		s := continuation.Splicer{}

		one.end.Last = v.ids(one.stop)[0]
		for range 2 {
			link, err := s.Continue(t.Context(), render, one.end, nil, add)
			if one.why != "" {
				require.ErrorContains(t, err, one.why+": ", name)
				continue
			}

			require.NoError(t, err, name)
			require.Equal(t, v.ids(one.more), link.More, name)
			require.Equal(t, one.loose, link.Loose, name)
		}
	}
}
