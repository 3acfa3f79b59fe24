package config_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
)

// All fields that AgentEnv has for its pool are accepted by their names, and problems have the path of their setting.
func TestPools(t *testing.T) {
	t.Parallel()

	c, err := config.Load(strings.NewReader(`
pools:
  train:
    tool_pool_mode: nomad
    nomad_address: https://nomad:4646
    sandbox_job_id: atropos-sandbox-agent-env
    sandbox_image: rolloutd:local
    slots_per_container: 10
    min_containers: 1
    max_containers: 10
    privileged: false
    acquire_timeout_s: 30.0
    purge_job_on_start: false
    purge_job_on_shutdown: true
    driver: docker
`), config.Environ{"NOMAD_TOKEN": "secret", "NOMAD_ADDR": "http://elsewhere"})
	require.NoError(t, err)
	require.NoError(t, c.Validate())
	require.Equal(t, map[string]string{"NOMAD_TOKEN": "secret"}, c.NomadEnv)
	s, ok := c.Pool("train")
	require.True(t, ok)
	require.Equal(t, "train", s.Name)
	require.InDelta(t, 300, s.Idle, 0)
	require.Equal(t, "nomad/jobs/atropos-sandbox-agent-env", s.Variable)
	require.True(t, s.Purges())

	two := c.Pools["train"]
	c.Pools["other"] = two
	c.Pools["bad"] = two
	bad := c.Pools["bad"]
	bad.JobID, bad.Driver, bad.Max = "another", "singularity", 1000
	bad.Min = new(0)
	c.Pools["bad"] = bad
	err = c.Validate()
	require.ErrorContains(t, err, "pools.bad.driver: must be docker, raw_exec or exec")
	require.ErrorContains(t, err, "pools.bad.max_containers: must be 1 to 200")
	require.ErrorContains(t, err, "pools.bad.min_containers: must be 1 to max_containers")
	require.ErrorContains(t, err, "pools.train.sandbox_job_id: must be another job than that of the pool other")
}
