package pool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/pool"
)

func TestCheck(t *testing.T) {
	t.Parallel()

	good := pool.Spec{Driver: pool.DriverRawExec}.WithDefaults("p")
	require.Empty(t, good.Check())

	for field, change := range map[string]func(*pool.Spec){
		"tool_pool_mode":      func(s *pool.Spec) { s.Mode = "modal" },
		"nomad_address":       func(s *pool.Spec) { s.NomadAddress = "localhost:4646" },
		"sandbox_job_id":      func(s *pool.Spec) { s.JobID = "a/b" },
		"driver":              func(s *pool.Spec) { s.Driver = "singularity" },
		"sandbox_image":       func(s *pool.Spec) { s.Driver = pool.DriverDocker },
		"command":             func(s *pool.Spec) { s.Command = "rolloutd" },
		"host_config":         func(s *pool.Spec) { s.HostConfig = "host.yaml" },
		"slots_per_container": func(s *pool.Spec) { s.Slots = -1 },
		"max_containers":      func(s *pool.Spec) { s.Max = 201 },
		"min_containers":      func(s *pool.Spec) { s.Min = new(11) },
		"acquire_timeout_s":   func(s *pool.Spec) { s.AcquireTimeout = -1 },
		"idle_s":              func(s *pool.Spec) { s.Idle = -1 },
		"every_s":             func(s *pool.Spec) { s.Every = 0.1 },
		"memory_mib":          func(s *pool.Spec) { s.MemoryMiB = 1 },
		"env.OPENAI_API_KEY":  func(s *pool.Spec) { s.Env = map[string]string{"OPENAI_API_KEY": "x"} },
		"secrets":             func(s *pool.Spec) { s.Variable = "a\" }}" },
	} {
		s := good
		change(&s)
		wrong := s.Check()
		require.Len(t, wrong, 1, field)
		require.Equal(t, field, wrong[0].Field)
	}
}

// Settings without an effect, and drivers that do not run in the backend, are accepted with a note.
func TestNotes(t *testing.T) {
	t.Parallel()

	docker := pool.Spec{Image: "i", Privileged: true}.WithDefaults("p")
	require.Empty(t, docker.Notes())

	raw := pool.Spec{Driver: pool.DriverRawExec, Image: "i", Privileged: true, PurgeOnStart: true}.WithDefaults("p")
	require.Len(t, raw.Notes(), 3)

	chroot := pool.Spec{Driver: pool.DriverExec}.WithDefaults("p")
	require.Len(t, chroot.Notes(), 1)
	chroot.Backend = "docker"
	require.Empty(t, chroot.Notes())
}
