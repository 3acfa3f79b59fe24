package e2e

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// killAfter kills the whole process after the rollout's nth event and starts the process again. If the
// rollout ends before, it returns false and kills nothing.
func (d *dev) killAfter(t *testing.T, id string, n int) (*dev, bool) {
	t.Helper()

	if !awaitEvents(t, d.url, id, n) {
		return d, false
	}

	d.kill()

	return d.restart(t), true
}

// awaitEvents waits for the rollout's nth event. It returns false if the rollout ended before.
func awaitEvents(t *testing.T, url, id string, n int) bool {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/rollouts/"+id+"/events", http.NoBody)
	require.NoError(t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(t, err)

	defer resp.Body.Close()

	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)

	for lines.Scan() {
		if !strings.HasPrefix(lines.Text(), "event: ") {
			continue
		}

		if n--; n <= 0 {
			return true
		}
	}

	return false
}

// The whole process is killed with kill -9 after each event of a ReACT rollout, one position for each
// rollout. Each side effect happens once, and no turn is repeated. TestReactKilled tests some of the
// positions.
func TestReactKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)
	model := startModel(t, strings.ReplaceAll(reactScript, "300ms", "50ms"))
	srv := startDev(t, devOptions{modelURL: model.url})

	positions := 0
	for killed := true; killed; positions++ {
		id := start(t, srv.url, reactArgs())
		srv, killed = srv.killAfter(t, id, positions+1)
		requireReact(t, finalize(t, srv.url, id))
		require.Empty(t, srv.sandboxes(t))
	}

	require.Greater(t, positions, 20)
	t.Logf("%d kills", positions-1)
}

// The whole process is killed with kill -9 during each step of an episode, and after each event of its
// grading. The client repeats a step with the same id until it gets an answer. TestEpisodeKilled tests some
// of the positions.
func TestEpisodeKilledAtEachEvent(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)
	srv := startDev(t, devOptions{})

	killed, kills := true, 0
	for ; killed; kills++ {
		p := player{srv.url, fmt.Sprint("walk-", kills)}
		killed = p.requireEpisode(t, kills, func() {
			srv.kill()
			srv = srv.restart(t)
		})
		require.Empty(t, srv.sandboxes(t))
	}

	require.Greater(t, kills, 2*episodeSteps)
	t.Logf("%d kills", kills-1)
}

// requireEpisode plays an episode and calls kill once: during step n, or after the nth event if the episode
// has no step n. Each side effect must happen once. It returns false if the episode ended before.
func (p player) requireEpisode(t *testing.T, n int, kill func()) (killed bool) {
	t.Helper()

	begun, err := p.post("/reset", args{
		"instruction": "count",
		"verify":      []string{`test "$(cat log)" = "$(printf '0\n1\n2')"`},
	})
	require.NoError(t, err)

	id := begun.Observation.RolloutID
	sent, played := make(chan int, episodeSteps), make(chan stepReply, 1)

	over := make(chan struct{})
	go func() { played <- p.play(sent, n, over) }()

	if n < episodeSteps {
		for step := range sent {
			if killed = step == n; killed {
				kill()
				close(over)

				break
			}
		}
	} else if killed = awaitEvents(t, p.url, id, n); killed {
		kill()
	}

	end := <-played
	require.True(t, end.Done)
	require.NotNil(t, end.Reward, "%+v", end.Observation.Error)
	require.InDelta(t, 1.0, *end.Reward, 0, "kill %d", n)
	result := finalize(t, p.url, id)
	require.Len(t, result.Attempts, 1)
	require.Equal(t, 3, strings.Count(result.AgentLogTail, "echo "), result.AgentLogTail)

	return killed
}

// episodeSteps is the number of steps of play.
const episodeSteps = 4

// play runs the steps and submits, and repeats each request until it gets an answer. It sends the number of
// each step to sent before it sends the request. After step hold, unless that is the last step, it waits
// for over, so that grading does not begin before the kill.
func (p player) play(sent chan<- int, hold int, over <-chan struct{}) stepReply {
	answered := func(step int, body args) stepReply {
		sent <- step
		// the server may be restarting
		for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			r, err := p.post("/step", body)
			if err == nil && (r.Observation.Result != nil || r.Done) || time.Since(begun) > 4*time.Minute {
				return r
			}
		}
	}

	for i := range episodeSteps - 1 {
		command := args{"tool_name": "terminal", "arguments": args{"command": fmt.Sprintf("echo %d >> log", i)}}
		answered(i, args{"request_id": fmt.Sprint("step-", i), "action": command})

		if i == hold {
			<-over
		}
	}

	return answered(episodeSteps-1, args{"action": args{"tool_name": "submit"}})
}
