// Package config is the one typed tree of settings. Load reads it from YAML and the environment (which wins), over the
// defaults of Defaults, and Validate reports every problem at once, each with its path. Code below cmd reads neither the
// environment nor flags.
package config

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Config is every setting of every role.
type Config struct {
	// Data is the folder for all that this host keeps: key, host id, sandboxes, gateway journal, agents, results.
	Data      string    `yaml:"data"`
	Serve     Serve     `yaml:"serve"`
	Temporal  Temporal  `yaml:"temporal"`
	Gateway   Gateway   `yaml:"gateway"`
	Worker    Worker    `yaml:"worker"`
	Sandbox   Sandbox   `yaml:"sandbox"`
	Store     Store     `yaml:"store"`
	Model     Model     `yaml:"model"`
	Limits    Limits    `yaml:"limits"`
	Telemetry Telemetry `yaml:"telemetry"`

	// Prices are what models cost, by the name that their endpoint has for them, for rollouts whose caller does not say.
	Prices map[string]rollout.Price `yaml:"prices"`
	// ModelEnv are the model catalogue's variables (VLLM_URL, OPENAI_API_KEY …), as in the environment.
	ModelEnv map[string]string `yaml:"model_env"`
	// EncryptionKey is the deployment's key; empty: a file in Data, made at first start. Only from the environment, so that
	// it is in no file that people share.
	EncryptionKey string `yaml:"-"`
}

// Serve is the OpenEnv edge.
type Serve struct {
	Listen      string `yaml:"listen"`
	Mode        string `yaml:"mode"`         // "simulation" or "production"
	Web         bool   `yaml:"web"`          // the page at /web/
	Readme      string `yaml:"readme"`       // a file that /metadata and the page show
	MaxSessions int    `yaml:"max_sessions"` // OpenEnv sessions at once
	// MaxConnections bounds the open connections of all kinds; default twice MaxSessions, at least 1024.
	MaxConnections int           `yaml:"max_connections"`
	StepTimeout    time.Duration `yaml:"step_timeout"` // longest answer to a step over /ws or a call over /mcp
	Tokens         []string      `yaml:"tokens"`       // bearer tokens; needed for a listener beyond loopback
	// Hosts are names, beside localhost, by which clients reach a server without tokens; requests for other names are refused.
	Hosts []string `yaml:"hosts"`
	// TokensFile lists more tokens: a YAML list of name, sha256 (of the token, in hex) and scope (client or operator).
	TokensFile string `yaml:"tokens_file"`
	// CodecOrigins are the web origins (of a Temporal UI) that may have payloads decrypted.
	CodecOrigins []string `yaml:"codec_origins"`
	// KeepSessions is how long a session that nobody used is kept in the store.
	KeepSessions time.Duration `yaml:"keep_sessions"`
}

// Connections is MaxConnections, or its default.
func (s Serve) Connections() int {
	if s.MaxConnections > 0 {
		return s.MaxConnections
	}
	return max(2*s.MaxSessions, 1024)
}

// Temporal is the cluster that runs the workflows.
type Temporal struct {
	Address   string `yaml:"address"`   // empty: what Env says, else 127.0.0.1:7233
	Namespace string `yaml:"namespace"` // empty: what Env says, else default
	// Env are the TEMPORAL_* variables that Temporal's own tools read too (TLS files, API key, profile).
	Env map[string]string `yaml:"-"`
}

// Worker runs the workflows' steps.
type Worker struct {
	Capacity int           `yaml:"capacity"` // sandboxes with an agent at once; 0: as many as memory allows
	Starts   int           `yaml:"starts"`   // agents, warm sandboxes and images brought up at once; 0: one for each core
	Lease    time.Duration `yaml:"lease"`    // a sandbox that nobody renews for this long ends itself
	Janitor  time.Duration `yaml:"janitor"`  // between two looks for orphans
	Grace    time.Duration `yaml:"grace"`    // a sandbox younger than this is no orphan
}

// Sandbox is the local sandbox driver and what a sandbox gets where its task does not say; zero sizes are the sandbox
// package's own defaults.
type Sandbox struct {
	Sandboxd  string  `yaml:"sandboxd"` // the supervisor's binary; empty: beside this one, in Data/bin, or in PATH
	Image     string  `yaml:"image"`    // a root file system folder; empty: the host's /usr, read-only
	AllowWeak bool    `yaml:"allow_weak"`
	CPU       float64 `yaml:"cpu"`
	MemoryMiB int     `yaml:"memory_mib"`
	PIDs      int     `yaml:"pids"`
	HomeMiB   int     `yaml:"home_mib"`
	TmpMiB    int     `yaml:"tmp_mib"`

	// Backends are those of this deployment, by the name that a task uses; empty: local alone. A worker makes sandboxes of all of them.
	Backends map[string]Backend `yaml:"backends"`
}

// Backend is one kind of sandbox.
type Backend struct {
	// Total is what all agents' sandboxes of a host may use together. Memory 0: what the host has, or what worker.capacity needs; CPU
	// and disk 0: unbounded.
	Total rollout.Resources `yaml:"total"`
	// Max is what one sandbox may ask for; zero fields are DefaultMax's.
	Max rollout.Resources `yaml:"max"`
}

// DefaultMax is what one sandbox may ask for where the operator does not say.
func DefaultMax() rollout.Resources {
	return rollout.Resources{CPU: 32, MemoryMiB: 64 << 10, DiskMiB: 128 << 10}
}

// BackendNames are the deployment's backends. The first is that of rollouts which name none: local, if there is one.
func (s Sandbox) BackendNames() []string {
	if len(s.Backends) == 0 {
		return []string{rollout.DefaultBackend}
	}
	names := slices.Sorted(maps.Keys(s.Backends))
	if i := slices.Index(names, rollout.DefaultBackend); i > 0 {
		names = slices.Insert(slices.Delete(names, i, i+1), 0, rollout.DefaultBackend)
	}
	return names
}

// Max is what one sandbox of each backend may ask for.
func (s Sandbox) Max() map[string]rollout.Resources {
	all := map[string]rollout.Resources{}
	for _, name := range s.BackendNames() {
		most, d := s.Backends[name].Max, DefaultMax()
		all[name] = rollout.Resources{
			CPU: cmp.Or(most.CPU, d.CPU), MemoryMiB: cmp.Or(most.MemoryMiB, d.MemoryMiB), DiskMiB: cmp.Or(most.DiskMiB, d.DiskMiB),
		}
	}
	return all
}

// Store is where results, traces and logs are kept.
type Store struct {
	URL string `yaml:"url"` // a folder, or a blob URL; empty: Data/store
	// RolloutMiB bounds the workspaces that all attempts of a rollout leave; 0: unbounded.
	RolloutMiB int `yaml:"rollout_mib"`
	// MinFreeMiB and MaxMiB are high-water marks: with less space left on the store's disk, or more in the store, no rollout begins.
	// 0: none.
	MinFreeMiB int `yaml:"min_free_mib"`
	MaxMiB     int `yaml:"max_mib"`
}

// Model is the scripted model server of the model role.
type Model struct {
	Listen string `yaml:"listen"`
	Script string `yaml:"script"` // a YAML file; empty: the built-in demo scripts
}

// Limits are the bounds of a rollout where its caller does not say; a zero field leaves the built-in default. The agent's own
// bound is agent_timeout_s, whose default is part of the tools' interface.
type Limits struct {
	Call     time.Duration `yaml:"call"`
	Setup    time.Duration `yaml:"setup"`
	Verifier time.Duration `yaml:"verifier"`
	Rollout  time.Duration `yaml:"rollout"`
	Queue    time.Duration `yaml:"queue"`
	Attempts int           `yaml:"attempts"`
}

// Over lays the limits that are set over base.
func (l Limits) Over(base rollout.Limits) rollout.Limits {
	for _, f := range []struct {
		set time.Duration
		to  *time.Duration
	}{
		{l.Call, &base.Call}, {l.Setup, &base.Setup},
		{l.Verifier, &base.Verifier}, {l.Rollout, &base.Rollout}, {l.Queue, &base.Queue},
	} {
		if f.set > 0 {
			*f.to = f.set
		}
	}
	if l.Attempts > 0 {
		base.Attempts = l.Attempts
	}
	return base
}

// Telemetry is metrics and traces.
type Telemetry struct {
	Listen       string `yaml:"listen"`        // /metrics and /healthz; empty: off
	OTLPEndpoint string `yaml:"otlp_endpoint"` // base URL of an OTLP/HTTP collector; empty: no traces
	Service      string `yaml:"service"`       // service.name of spans
}
