package gateway_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// tools makes four calls whose last is the first that no audit on the way looks at, and runs before it.
func (s *talk) tools(t *testing.T, before func()) {
	t.Helper()

	spoke := []string{systemSays, userAsks}

	for n := range 4 {
		if n == 3 {
			before()
		}

		s.say(t, callsOne(), spoke...)
		spoke = append(spoke, repeatsOne, resultOne)
	}
}

// rendered counts the prompts that the engine was asked for.
func (s *talk) rendered() int {
	n := 0

	for _, r := range s.model.requests() {
		if strings.HasSuffix(r.path, "/tokenize") {
			n++
		}
	}

	return n
}

// The last prompt of a conversation is compared with the template's at the end of the rollout, once. Where it is
// another, the turn and its sequence say so.
func TestConversationsAreAuditedAtTheEnd(t *testing.T) {
	t.Parallel()

	for name, one := range map[string]struct {
		// meanwhile
		forgets, restarts, paused bool
		flaws                     []string

		// number of prompts; after a restart also those that show what a template may write otherwise before a reply
		asked int
	}{
		"healthy":         {asked: 1},
		"after a restart": {restarts: true, asked: 4},
		"another template": {forgets: true, asked: 1, flaws: []string{
			"audit: the chat template shows the conversation otherwise than its continuation does",
		}},
		"another template, restarted": {forgets: true, restarts: true, asked: 4, flaws: []string{
			"audit: the chat template shows the conversation otherwise than its continuation does",
		}},
		"paused": {paused: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := newTalk(t, &talker{takes: "kv_transfer_params"})
			s.tools(t, func() {
				s.engine.mu.Lock()
				defer s.engine.mu.Unlock()

				s.engine.forgets = one.forgets
			})

			if one.restarts {
				s.stop()
				s.start(t)
			}

			before := s.rendered()

			require.Empty(t, s.turns(t, s.id)[3].Flaws, "the rollout has not ended")
			require.Equal(t, before, s.rendered())

			if one.paused {
				_, err := s.trainer.Pause(t.Context(), s.route(s.model.URL).Model.Upstream(), patience)
				require.NoError(t, err)
			}

			require.NoError(t, s.client.End(t.Context(), s.id, ""))

			for range 2 {
				turns := s.turns(t, s.id)
				for n, turn := range turns {
					require.True(t, turn.Train, "its log probabilities are those of its prompt")

					if n < 3 {
						require.Empty(t, turn.Flaws)
					}
				}

				built, err := sequence.Build(turns, sequence.Choice{})
				require.NoError(t, err)
				require.Len(t, built.Sequences, 1)
				require.ElementsMatch(t, one.flaws, turns[3].Flaws)
				require.ElementsMatch(t, one.flaws, built.Sequences[0].Spans[3].Flaws)
			}

			require.Equal(t, one.asked, s.rendered()-before)
		})
	}
}
