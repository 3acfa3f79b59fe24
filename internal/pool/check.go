package pool

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
)

// maxHosts bounds the hosts of a pool: a job has a task group for each.
const maxHosts = 200

var (
	jobID    = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$`)
	poolName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,31}$`)
	secret   = regexp.MustCompile(`(?i)(KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)`)

	// names that match and are not secret
	public = []string{"ROLLOUTD_TOKENS_FILE"}
)

// Problem is an invalid setting.
type Problem struct{ Field, Want string }

// Check returns the invalid settings of a spec with its defaults.
func (s Spec) Check() (all []Problem) {
	check := func(ok bool, field, want string) {
		if !ok {
			all = append(all, Problem{field, want})
		}
	}
	u, err := url.Parse(s.NomadAddress)
	check(
		poolName.MatchString(s.Name),
		"name",
		"must be 1 to 32 lower-case letters, digits or '-', beginning with a letter or digit",
	)
	check(s.Mode == "" || s.Mode == "nomad", "tool_pool_mode", "must be nomad")
	check(
		err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" && u.User == nil,
		"nomad_address",
		"must be http://HOST:PORT or https://HOST:PORT",
	)
	check(
		jobID.MatchString(s.JobID),
		"sandbox_job_id",
		"must be 1 to 128 letters, digits, '.', '_' or '-', not beginning with '.'",
	)
	check(slices.Contains([]string{
		DriverDocker, DriverRawExec, DriverExec,
	}, s.Driver), "driver", "must be docker, raw_exec or exec")
	check(s.Driver != DriverDocker || s.Image != "", "sandbox_image", "must be an image that has rolloutd")
	check(path.IsAbs(s.Command), "command", "must be the absolute path of rolloutd")
	check(
		s.HostConfig == "" || path.IsAbs(s.HostConfig),
		"host_config",
		"must be the absolute path of a configuration file",
	)
	check(s.Slots >= 1 && s.Slots <= 10000, "slots_per_container", "must be 1 to 10000")
	check(s.Max >= 1 && s.Max <= maxHosts, "max_containers", "must be 1 to 200")
	check(*s.Min >= 1 && *s.Min <= s.Max, "min_containers", "must be 1 to max_containers: rolloutd pool scale NAME 0 leaves no host")
	check(
		s.AcquireTimeout > 0 && s.AcquireTimeout <= 86400,
		"acquire_timeout_s",
		"must be more than 0 and at most 86400 seconds",
	)
	check(s.Idle > 0 && s.Idle <= 7*86400, "idle_s", "must be more than 0 and at most 604800 seconds")
	check(s.Every >= 1 && s.Every <= 3600, "every_s", "must be 1 to 3600 seconds")
	check(s.CPU >= 1, "cpu_mhz", "must be 1 or more")
	check(s.MemoryMiB >= 256, "memory_mib", "must be 256 or more")

	for name := range s.Env {
		check(
			!secret.MatchString(name) || slices.Contains(public, name),
			"env."+name,
			"must not be a secret: put it into the Nomad variable "+s.Variable,
		)
	}

	check(!strings.ContainsAny(s.Variable, "\"{}`\n\\"), "secrets", "must be the path of a Nomad variable")

	return all
}
