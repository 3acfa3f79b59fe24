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

// killAfter kills the whole process once the rollout has had n events, and starts it again. It is false, and kills nothing, where the rollout
// ends before.
func (d *dev) killAfter(t *testing.T, id string, n int) (*dev, bool) {
	t.Helper()
	if !awaitEvents(t, d.url, id, n) {
		return d, false
	}
	d.kill()
	return d.restart(t), true
}

// awaitEvents returns once the rollout has had n events; false: it ended before.
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

// kill -9 of the whole process after each event of a ReACT rollout, one after another; TestReactKilled has some of the positions: each side effect is there once, no turn is doubled.
func TestKillWalkOfReact(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)
	model := startModel(t, strings.ReplaceAll(reactScript, "300ms", "50ms"))
	srv := startDev(t, devOptions{modelURL: model.url})
	positions := 0
	for struck := true; struck; positions++ {
		id := start(t, srv.url, reactArgs())
		srv, struck = srv.killAfter(t, id, positions+1)
		requireReact(t, finalize(t, srv.url, id))
		require.Empty(t, srv.sandboxes(t))
	}
	require.Greater(t, positions, 20)
	t.Logf("%d kills", positions-1)
}

// The same for an episode: while each of its steps is on its way, and after each event of its grading. The client makes a step again under
// its id until it is answered. TestEpisodeKilled has some of the positions.
func TestKillWalkOfAnEpisode(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)
	srv := startDev(t, devOptions{})
	struck, kills := true, 0
	for ; struck; kills++ {
		p := player{srv.url, fmt.Sprint("walk-", kills)}
		struck = p.requireEpisode(t, kills, func() {
			srv.kill()
			srv = srv.restart(t)
		})
		require.Empty(t, srv.sandboxes(t))
	}
	require.Greater(t, kills, 2*episodeSteps)
	t.Logf("%d kills", kills-1)
}

// requireEpisode plays an episode and strikes once: while step n is on its way, or beyond them after the nth event. Each side effect is there
// once. False: the episode ended before.
func (p player) requireEpisode(t *testing.T, n int, strike func()) (struck bool) {
	t.Helper()
	begun, err := p.post("/reset", args{"instruction": "count", "verify": []string{`test "$(cat log)" = "$(printf '0\n1\n2')"`}})
	require.NoError(t, err)
	id := begun.Observation.RolloutID
	sent, played := make(chan int, episodeSteps), make(chan stepReply, 1)
	over := make(chan struct{})
	go func() { played <- p.play(sent, n, over) }()
	if n < episodeSteps {
		for step := range sent {
			if struck = step == n; struck {
				strike()
				close(over)
				break
			}
		}
	} else if struck = awaitEvents(t, p.url, id, n); struck {
		strike()
	}
	end := <-played
	require.True(t, end.Done)
	require.NotNil(t, end.Reward, "%+v", end.Observation.Error)
	require.InDelta(t, 1.0, *end.Reward, 0, "kill %d", n)
	result := finalize(t, p.url, id)
	require.Len(t, result.Attempts, 1)
	require.Equal(t, 3, strings.Count(result.AgentLogTail, "echo "), result.AgentLogTail)
	return struck
}

// episodeSteps are those of play.
const episodeSteps = 4

// play makes steps and submits, each until it is answered, and reports each before it is sent. After step hold, where it is one before the last, it
// waits for over: grading must not begin before the kill.
func (p player) play(sent chan<- int, hold int, over <-chan struct{}) stepReply {
	answered := func(step int, body args) stepReply {
		sent <- step
		for begun := time.Now(); ; time.Sleep(20 * time.Millisecond) { // the server is being started again
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
