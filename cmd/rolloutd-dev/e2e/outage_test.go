package e2e

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/scripted"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

const outageScript = `
- match: work on
  hermes: true
  turns:
    - tool_calls: [{name: terminal, arguments: {command: "echo one > log.txt"}}]
    - text: Done.
`

// heldModel starts a scripted model that answers the agent only after release is called. called is closed
// at the agent's first call.
func heldModel(t *testing.T, script string) (url string, called <-chan struct{}, release func()) {
	t.Helper()
	play, first, open := scripted.New(scripted.Options{Scripts: scripts(t, script)}), make(
		chan struct{},
	), make(chan struct{})
	call, release := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(open) })
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/completions") && !isProbe(r) {
			call()

			select {
			case <-open:
			case <-r.Context().Done():
				return
			}
		}

		play.ServeHTTP(w, r)
	}))

	t.Cleanup(func() { release(); srv.CloseClientConnections(); srv.Close() })

	return srv.URL + "/v1", first, release
}

// duringOutage starts a rollout with the limits and makes the bucket fail while the agent works. It returns
// when the bucket has refused a request in the phase.
func duringOutage(t *testing.T, limits args, phase rollout.Phase) (srv *dev, bucket *s3test.Server, id string) {
	t.Helper()
	bucket = s3test.Start(t)
	model, called, release := heldModel(t, outageScript)
	srv = startDev(t, devOptions{
		modelURL: model,
		env:      append(s3test.Env(), "ROLLOUTD_STORE_URL="+bucket.URL(s3test.Bucket)),
	})
	id = start(t, srv.url, args{
		"instruction": "work on",
		"agent":       "react",
		"endpoint":    "scripted",
		"verify":      []string{"grep -q one log.txt"},
		"limits":      limits,
	})

	select {
	case <-called:
	case <-time.After(5 * time.Minute):
		require.FailNow(t, "the agent makes no call")
	}

	bucket.Lose()
	release()
	waitFor(t, srv.url, id, "the phase "+string(phase), func(s state) bool { return reached(s.Phase, phase) })

	before := bucket.Refused()

	require.Eventually(
		t,
		func() bool { return bucket.Refused() > before },
		5*time.Minute,
		10*time.Millisecond,
		"nothing asks for the bucket",
	)

	return srv, bucket, id
}

// The bucket fails during a rollout and recovers in time. The rollout completes in its first attempt.
func TestBucketOutage(t *testing.T) {
	t.Parallel()
	srv, bucket, id := duringOutage(t, args{"attempts": 1}, rollout.PhaseVerifying)
	bucket.Return()

	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
	require.NotNil(t, result.Reward)
	require.InDelta(t, 1, *result.Reward, 0, "%+v %+v %s", result.VerifyResults, result.Grading, result.AgentLogTail)
	require.Len(t, result.Attempts, 1)
	require.Len(t, result.ProxyTurns, 2)
	require.FileExists(t, filepath.Join(bucket.Dir, s3test.Bucket, "rollouts", id, "result.json"))
}

// The bucket fails for longer than grading may take. The attempt fails, and the rollout gets no reward. The
// result is stored when the bucket has recovered.
func TestLongBucketOutage(t *testing.T) {
	t.Parallel()

	if os.Getenv("ROLLOUTD_REDTEAM") == "" {
		t.Skip("takes four minutes: the retries of grading have some minutes beyond limits.verifier_s")
	}

	srv, bucket, id := duringOutage(t, args{"attempts": 1, "verifier_s": 3, "collect_s": 3}, rollout.PhaseCollecting)
	bucket.Return()

	result := finalize(t, srv.url, id)
	require.Equal(t, rollout.InfraFailed, result.Outcome, deref(result.Error))
	require.Nil(t, result.Reward)
	require.NotNil(t, result.Error)
	require.Contains(t, *result.Error, "S3")
	require.FileExists(t, filepath.Join(bucket.Dir, s3test.Bucket, "rollouts", id, "result.json"))
}
