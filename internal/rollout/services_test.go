package rollout_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

func TestCheckServices(t *testing.T) {
	t.Parallel()

	with := func(services ...rollout.Service) rollout.Sandbox {
		return rollout.Sandbox{Image: "app", Services: services}
	}
	db := rollout.Service{Name: "db", Image: "x"}
	change := func(change func(*rollout.Service)) rollout.Sandbox {
		s := db
		change(&s)

		return with(s)
	}
	volume := func(path string) rollout.Sandbox {
		return change(func(s *rollout.Service) { s.Volumes = []rollout.Volume{{Name: "v", Path: path}} })
	}

	require.NoError(t, rollout.Sandbox{}.CheckServices())
	require.NoError(t, with(db, rollout.Service{Name: "a-1_b", Image: "y", DependsOn: []string{"db"}}).CheckServices())
	require.NoError(t, volume("/var/lib/data").CheckServices())

	for want, s := range map[string]rollout.Sandbox{
		"sandbox.volumes: needs sandbox.services":               {Volumes: []rollout.Volume{{}}},
		"sandbox.services: needs sandbox.image":                 {Services: []rollout.Service{db}},
		"sandbox.services: must have at most 8 services, got 9": with(make([]rollout.Service, 9)...),
		"sandbox.services[1].name: \"db\" is the name of two":   with(db, db),
		"sandbox.services[0].name: must be 1 to 20":             with(rollout.Service{Name: "Db"}),
		"sandbox.services[0].name: \"main\" is the agent's":     with(rollout.Service{Name: "main", Image: "x"}),
		"sandbox.services[0].image: must be the name":           with(rollout.Service{Name: "db"}),
		"sandbox.services[0].user: must be a user":              change(func(s *rollout.Service) { s.User = "a b" }),
		"sandbox.services[0].working_dir: must be an absolute":  change(func(s *rollout.Service) { s.WorkingDir = "a" }),
		"sandbox.services[0].command: must not contain a zero":  change(func(s *rollout.Service) { s.Command = []string{"\x00"} }),
		"sandbox.services[0].entrypoint: must have at most 256": change(func(s *rollout.Service) {
			s.Entrypoint, s.Command = make([]string, 257), []string{"\x00"}
		}),
		"sandbox.services[0].env.HOME: is the sandbox's":      change(func(s *rollout.Service) { s.Env = map[string]string{"HOME": "/"} }),
		"sandbox.services[0]: sandbox: cpu, memory_mib and":   change(func(s *rollout.Service) { s.CPU = math.NaN() }),
		"sandbox.services[0].depends_on: there is no service": change(func(s *rollout.Service) { s.DependsOn = []string{"x"} }),
		"sandbox.services: must not depend on each other":     change(func(s *rollout.Service) { s.DependsOn = []string{"db"} }),
		"healthcheck.test: must be a program":                 change(func(s *rollout.Service) { s.Healthcheck = &rollout.Healthcheck{} }),
		"healthcheck: must have times of at most 300": change(func(s *rollout.Service) {
			s.Healthcheck = &rollout.Healthcheck{Test: []string{"x"}, Timeout: 301}
		}),
		"healthcheck: must not have negative": change(func(s *rollout.Service) {
			s.Healthcheck = &rollout.Healthcheck{Test: []string{"x"}, Interval: math.NaN()}
		}),
		"healthcheck: must be left out with once": change(func(s *rollout.Service) {
			s.Once, s.Healthcheck = true, &rollout.Healthcheck{Test: []string{"x"}}
		}),
		"volumes[0].path: must be an absolute":  volume("data"),
		"volumes[0].path: / is a folder of the": volume("/"),
		"volumes[0].path: /tmp/a is a folder":   volume("/tmp/a"),
		"volumes[0].path: /opt is a folder of":  volume("/opt"),
		"volumes[1].path: /a/b and /a are in each": change(func(s *rollout.Service) {
			s.Volumes = []rollout.Volume{{Name: "v", Path: "/a"}, {Name: "w", Path: "/a/b"}}
		}),
		"volumes[0].name: must be 1 to 64": change(func(s *rollout.Service) {
			s.Volumes = []rollout.Volume{{Name: "../x", Path: "/a"}}
		}),
	} {
		err := s.CheckServices()
		require.Equal(t, fault.Invalid, fault.KindOf(err), want)
		require.ErrorContains(t, err, want)
	}
}

// A service starts behind those on which it depends, whatever their order.
func TestStartOrder(t *testing.T) {
	t.Parallel()

	var names []string
	for _, s := range rollout.StartOrder([]rollout.Service{
		{Name: "web", DependsOn: []string{"seed", "db"}}, {Name: "seed", DependsOn: []string{"db"}}, {Name: "db"}, {Name: "x"},
	}) {
		names = append(names, s.Name)
	}

	require.Equal(t, []string{"db", "x", "seed", "web"}, names)
}

func TestServicesAreOnTheLocalBackend(t *testing.T) {
	t.Parallel()

	s := rollout.Sandbox{Image: "x", Services: []rollout.Service{{Name: "db", Image: "x"}}}
	require.NoError(t, s.CheckBackend(rollout.DefaultBackend))

	for _, backend := range []string{rollout.BackendDocker, rollout.BackendE2B} {
		require.ErrorContains(t, s.CheckBackend(backend), "sandbox.services: are not possible on the backend "+backend)
	}
}

// Handles of services follow from the attempt.
func TestServiceIDs(t *testing.T) {
	t.Parallel()

	s := rollout.Sandbox{Services: []rollout.Service{{Name: "db"}, {Name: "web"}}}
	target := rollout.Target{RolloutID: "r", Attempt: 2, Services: s.ServiceNames()}
	require.Equal(t, []string{"r.2.v.s-db", "r.2.v.s-web"}, target.ServiceIDs(target.VerifierID()))
	require.Empty(t, rollout.Target{}.ServiceIDs("x"))
}
