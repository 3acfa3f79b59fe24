package e2e

import (
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The engine restarts and refuses connections for seven minutes, while rollouts of a group of one hundred are
// in flight. None of them is lost, replaced or tried again.
func TestEngineRestartsDuringAGroup(t *testing.T) {
	t.Parallel()
	onlyRedteam(t)

	const (
		size  = 100
		ended = 10
		away  = 7 * time.Minute
	)

	to, err := url.Parse(strings.TrimSuffix(startModel(t, reactScript).url, "/v1"))
	require.NoError(t, err)
	engine := &closableEndpoint{address: freePorts(t, 1)[0], to: httputil.NewSingleHostReverseProxy(to)}
	engine.open(t)
	srv, _ := startHolding(t, "http://"+engine.address+"/v1")

	of := reactArgs()
	of["group_id"], of["group_size"] = "restart", size
	of["sandbox"] = args{"memory": "256MiB"}
	postGroup(t, srv.url, of)
	waitGroupUntil(t, srv.url, "restart", func(g rollout.GroupState) bool { return len(g.Rewards()) >= ended })

	engine.close()
	time.Sleep(away)
	engine.open(t)

	g := waitGroupUntil(t, srv.url, "restart", rollout.GroupState.Done)
	require.Equal(t, rollout.GroupComplete, g.Outcome, g.Error)
	require.Zero(t, g.Replaced)
	require.Len(t, g.Rewards(), size)

	held := 0

	for _, m := range g.Members {
		result := finalize(t, srv.url, m.RolloutID)
		requireReact(t, result)

		if result.ModelHeldS > away.Seconds()/2 {
			held++
		}
	}

	require.NotZero(t, held, "no rollout was in flight while the engine was away")
	require.Empty(t, srv.sandboxes(t))
}
