package nomad_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/hashicorp/nomad/api"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/pool/nomad"
)

// server is a fake Nomad server for faults that a real one cannot produce on request. `deploy/suite.sh
// nomad` uses a real one.
type server struct {
	t   *testing.T
	url string
	mu  sync.Mutex
	job *api.Job

	// by method and path; replaces the response
	fail map[string]http.HandlerFunc

	// all write requests
	sent []sent
}

type sent struct {
	call  string
	query map[string][]string
	body  api.JobRegisterRequest
	token string
}

const jobPath = "/v1/job/rolloutd-p"

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()

	call := r.Method + " " + r.URL.Path
	if r.Method != http.MethodGet {
		one := sent{call: call, query: r.URL.Query(), token: r.Header.Get("X-Nomad-Token")}
		raw, _ := io.ReadAll(r.Body)
		// a DELETE has no body
		_ = json.Unmarshal(raw, &one.body)
		s.sent = append(s.sent, one)
	}

	if fail := s.fail[call]; fail != nil {
		fail(w, r)
		return
	}

	var answer any

	switch call {
	case "GET " + jobPath:
		if s.job == nil {
			http.Error(w, "job not found", http.StatusNotFound)
			return
		}

		answer = s.job
	case "GET " + jobPath + "/allocations":
		answer = []*api.AllocationListStub{
			{ID: "a1", TaskGroup: "host-0", NodeName: "n", DesiredStatus: "run", ClientStatus: "running"},
			{ID: "a2", TaskGroup: "host-0", DesiredStatus: "stop", ClientStatus: "running"},
			{ID: "a3", TaskGroup: "host-1", DesiredStatus: "run", ClientStatus: "failed"},
			{
				ID:            "a4",
				TaskGroup:     "host-1",
				DesiredStatus: "run",
				ClientStatus:  "pending",
				TaskStates: map[string]*api.TaskState{
					"worker": {State: "pending", Events: []*api.TaskEvent{{DisplayMessage: "image not found"}}},
				},
			},
		}
	case "GET " + jobPath + "/deployment":
		answer = nil
	default:
		answer = map[string]any{}
	}
	// the client may have disconnected
	_ = json.NewEncoder(w).Encode(answer)
}

func start(t *testing.T) (*server, *nomad.Client) {
	t.Helper()
	s := &server{t: t, fail: map[string]http.HandlerFunc{}}
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	s.url = web.URL
	spec := spec()
	spec.NomadAddress = s.url
	c, err := nomad.New(spec, nomad.Access{Token: "a token"})
	require.NoError(t, err)
	t.Cleanup(c.Close)

	return s, c
}

func spec() pool.Spec {
	s := pool.Spec{
		Driver:     pool.DriverDocker,
		Image:      "i",
		Privileged: true,
		Max:        3,
		Namespace:  "ns",
		Region:     "r",
		OnePerNode: true,
	}.WithDefaults("p")
	s.Owner = "me"

	return s
}

// made returns the job that the client registers, as Nomad returns it.
func (s *server) made(t *testing.T, c *nomad.Client) pool.Job {
	t.Helper()
	require.NoError(t, c.Register(t.Context(), pool.Job{}, map[string]int{"host-0": 1, "host-1": 1}))

	job := s.sent[len(s.sent)-1].body.Job
	index := uint64(42)
	job.JobModifyIndex = &index
	s.job = job
	seen, err := c.Observe(t.Context())
	require.NoError(t, err)

	s.sent = nil

	return seen
}

func TestRegister(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	seen, err := c.Observe(t.Context())
	require.NoError(t, err)
	require.False(t, seen.Exists)
	require.Equal(t, []pool.Group{{Name: "host-0"}, {Name: "host-1"}, {Name: "host-2"}}, seen.Groups)

	require.NoError(t, c.Register(t.Context(), seen, map[string]int{"host-0": 1, "host-1": 0, "host-2": 0}))
	require.Len(t, s.sent, 1)
	one := s.sent[0]
	require.Equal(t, "a token", one.token)
	require.Equal(t, []string{"ns"}, one.query["namespace"])
	require.Equal(t, []string{"r"}, one.query["region"])
	require.True(t, one.body.EnforceIndex)
	require.Zero(t, one.body.JobModifyIndex, "the job must not exist")
	job := one.body.Job
	require.Equal(t, "me", job.Meta["rolloutd_owner"])
	require.Zero(t, *job.Update.MaxParallel)
	require.Len(t, job.TaskGroups, 3)
	require.Equal(
		t,
		[]int{1, 0, 0},
		[]int{*job.TaskGroups[0].Count, *job.TaskGroups[1].Count, *job.TaskGroups[2].Count},
	)

	for _, g := range job.TaskGroups {
		require.Zero(t, *g.Update.MaxParallel)
		require.Equal(t, "bee9caadb653a0ec", g.Meta["rolloutd_template"], "hosts of earlier releases have these settings")

		for _, task := range g.Tasks {
			require.Equal(t, "i", task.Config["image"])
			require.Equal(t, true, task.Config["privileged"])
			require.Contains(t, *task.Templates[0].EmbeddedTmpl, `nomadVar "nomad/jobs/rolloutd-p"`)
			require.NotContains(t, task.Env, "ROLLOUTD_ENCRYPTION_KEY")
		}
	}
}

// Hosts read the configuration file of the spec. After a change of the file, running hosts are outdated.
func TestHostConfig(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	s.made(t, c)
	require.NotContains(t, s.job.TaskGroups[0].Tasks[1].Config["args"], "--config")

	changed := spec()
	changed.NomadAddress, changed.HostConfig = s.url, "/etc/rolloutd/host.yaml"
	c, err := nomad.New(changed, nomad.Access{})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	seen, err := c.Observe(t.Context())
	require.NoError(t, err)
	require.True(t, seen.Groups[0].Outdated)
	require.NoError(t, c.Register(t.Context(), seen, map[string]int{"host-2": 1}))

	for _, task := range s.sent[0].body.Job.TaskGroups[2].Tasks {
		require.Equal(t, []any{task.Name, "--config", "/etc/rolloutd/host.yaml"}, task.Config["args"].([]any)[:3])
	}
}

// A group with hosts keeps its definition, even if another user changed it or the spec no longer has the
// group. A group without hosts gets the definition of the spec.
func TestRegisterKeepsHosts(t *testing.T) {
	t.Parallel()
	s, c := start(t)
	seen := s.made(t, c)
	require.Equal(t, []pool.Alloc{{ID: "a1", Node: "n", State: "running"}}, seen.Groups[0].Allocs)
	require.Equal(t, []pool.Alloc{{ID: "a4", State: "pending", Why: "image not found"}}, seen.Groups[1].Allocs)

	for _, g := range s.job.TaskGroups {
		g.Tasks[0].Config["image"] = "old"
		g.Meta["rolloutd_template"] = "old"
	}

	extra, one := "by-hand", 1
	s.job.TaskGroups = append(s.job.TaskGroups, &api.TaskGroup{Name: &extra, Count: &one})
	seen, err := c.Observe(t.Context())
	require.NoError(t, err)
	require.True(t, seen.Groups[0].Outdated)
	require.Equal(t, "by-hand", seen.Groups[3].Name)

	require.NoError(t, c.Register(t.Context(), seen, map[string]int{"host-1": 0, "host-2": 1}))

	body := s.sent[0].body
	require.True(t, body.EnforceIndex)
	require.Equal(t, uint64(42), body.JobModifyIndex)

	var got []string

	for _, g := range body.Job.TaskGroups {
		image := ""
		if len(g.Tasks) > 0 {
			image, _ = g.Tasks[0].Config["image"].(string)
		}

		got = append(got, *g.Name+" "+image)
	}

	require.Equal(t, []string{"host-0 old", "host-1 i", "host-2 i", "by-hand "}, got)
}

// A job that was changed after it was read, or that has another owner now, is not written.
func TestConcurrentChangeIsNotOverwritten(t *testing.T) {
	t.Parallel()

	for name, change := range map[string]func(*server){
		"index": func(s *server) { *s.job.JobModifyIndex = 43 },
		"owner": func(s *server) { s.job.Meta["rolloutd_owner"] = "another" },
		"gone":  func(s *server) { s.job = nil },
		"refused by Nomad": func(s *server) {
			s.fail["PUT /v1/jobs"] = func(w http.ResponseWriter, _ *http.Request) {
				http.Error(w, "Enforcing job modify index 42: job exists with conflicting job modify index: 43", http.StatusInternalServerError)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, c := start(t)
			seen := s.made(t, c)
			change(s)
			require.Equal(t, fault.Conflict, fault.KindOf(c.Register(t.Context(), seen, map[string]int{"host-0": 0})))

			if name == "refused by Nomad" {
				return
			}

			require.Equal(t, fault.Conflict, fault.KindOf(c.Deregister(t.Context(), seen, true)))
			require.Empty(t, s.sent)
		})
	}
}

// A refused, lost or unexpected response is an error. It is never read as a job without hosts.
func TestUncertainAnswersAreErrors(t *testing.T) {
	t.Parallel()

	text := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			// the client may have disconnected
			_, _ = io.WriteString(w, body)
		}
	}

	answers := map[string]struct {
		answer http.HandlerFunc
		kind   fault.Kind
	}{
		"no leader":     {text(500, "No cluster leader"), fault.Unavailable},
		"a proxy's 404": {text(404, "page not found"), fault.Unavailable},
		"no right":      {text(403, "Permission denied"), fault.Unauthorized},
		"rate limit":    {text(429, "slow down"), fault.Unavailable},
		"text with 200": {text(200, "No cluster leader"), fault.Unavailable},
		"cut off":       {text(200, `{"ID": "rollo`), fault.Unavailable},
		"nothing":       {text(200, ""), fault.Unavailable},
		"too long":      {text(200, `"`+strings.Repeat("x", 33<<20)+`"`), fault.Unavailable},
		"connection closed": {
			func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
			fault.Unavailable,
		},
	}
	for _, path := range []string{jobPath, jobPath + "/allocations", jobPath + "/deployment"} {
		for name, a := range answers {
			t.Run(strings.TrimPrefix(path, "/v1/")+" "+name, func(t *testing.T) {
				t.Parallel()
				s, c := start(t)
				seen := s.made(t, c)
				s.fail["GET "+path] = a.answer
				_, err := c.Observe(t.Context())
				require.Error(t, err)
				require.Equal(t, a.kind, fault.KindOf(err), "%v", err)
				require.Less(t, len(err.Error()), 1000)

				if path == jobPath {
					require.Error(t, c.Register(t.Context(), seen, map[string]int{"host-0": 0}))
					require.Error(t, c.Deregister(t.Context(), seen, true))
				}

				require.Empty(t, s.sent)
			})
		}
	}

	s, c := start(t)
	s.made(t, c)
	s.fail["GET "+jobPath+"/allocations"] = text(200, "null")
	_, err := c.Observe(t.Context())
	require.Equal(t, fault.Unavailable, fault.KindOf(err), "%v", err)

	for _, body := range []string{"{}", "null", `{"ID":"another","JobModifyIndex":3}`, `{"ID":"rolloutd-p"}`} {
		s, c := start(t)
		s.fail["GET "+jobPath] = text(200, body)
		_, err := c.Observe(t.Context())
		require.Equal(t, fault.Unavailable, fault.KindOf(err), "%s: %v", body, err)
	}
}

// A deployment that another user's change of the job started is reported.
func TestDeployment(t *testing.T) {
	t.Parallel()

	for status, active := range map[string]bool{
		"running":    true,
		"paused":     true,
		"pending":    true,
		"blocked":    true,
		"unblocking": true,
		"successful": false,
		"failed":     false,
		"cancelled":  false,
	} {
		s, c := start(t)
		s.made(t, c)
		s.fail["GET "+jobPath+"/deployment"] = func(w http.ResponseWriter, _ *http.Request) {
			// the client may have disconnected
			_ = json.NewEncoder(w).Encode(api.Deployment{Status: status})
		}
		seen, err := c.Observe(t.Context())
		require.NoError(t, err)
		require.Equal(t, active, seen.Deploying, status)
	}
}
