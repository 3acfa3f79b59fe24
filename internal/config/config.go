// Package config holds the settings of all roles. Load reads them from YAML and the environment, which
// overrides the file; Defaults has the defaults. Validate reports all problems at once, each with the path
// of its setting. Code outside cmd reads neither the environment nor flags.
package config

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Config has the settings of all roles.
type Config struct {
	// Data is the folder of this host's files: key, host id, sandboxes, gateway journal, agents, results.
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

	// Tools are the servers of tools that policies may call; ToolServer is the role that serves tools.
	Tools      Tools      `yaml:"tools"`
	ToolServer ToolServer `yaml:"tool_server"`

	// Agents are command-line agents beside the built-in ones. One with the name of a preset replaces it.
	Agents []Agent `yaml:"agents"`
	// TaskSets are the sets of tasks that clients name.
	TaskSets   map[string]TaskSet `yaml:"task_sets"`
	TrainerAPI TrainerAPI         `yaml:"trainer_api"`
	// Sinks are where finished groups are delivered, by name.
	Sinks map[string]Sink `yaml:"sinks"`
	// Pools are pools of hosts on Nomad, by name. A server keeps the pools of its configuration.
	Pools map[string]pool.Spec `yaml:"pools"`
	// NomadEnv has the NOMAD_* variables that Nomad's own tools read too (token, TLS files).
	NomadEnv map[string]string `yaml:"-"`
	// Environments are environments of interactive episodes, by name. The one of name tools always exists.
	Environments map[string]Environment `yaml:"environments"`
	// Prices are the prices of models, by the endpoint's name for the model, for rollouts that set none.
	Prices map[string]rollout.Price `yaml:"prices"`
	// Translate are the endpoints whose calls go upstream as chat completions, by name or host:port, for
	// rollouts that do not set translate.
	Translate []string `yaml:"translate"`
	// ModelEnv has the model catalog's variables (VLLM_URL, OPENAI_API_KEY …), as in the environment.
	ModelEnv map[string]string `yaml:"model_env"`
	// Retention says which rollouts the servers delete from the store.
	Retention Retention `yaml:"retention"`
	// EncryptionKey is the deployment's key; empty: a file in Data, created at the first start. It is read
	// from the environment only, so that no shared file has it.
	EncryptionKey string `yaml:"-"`
}

// Serve is the OpenEnv edge.
type Serve struct {
	Listen string `yaml:"listen"`

	// "simulation" or "production"
	Mode string `yaml:"mode"`

	// the page at /web/
	Web bool `yaml:"web"`

	// a file that /metadata and the page show
	Readme string `yaml:"readme"`

	// OpenEnv sessions at once; 0: see Config.Sessions
	MaxSessions int `yaml:"max_sessions"`
	// TokenShare is the part of the sessions that one token may take where there are several.
	TokenShare float64 `yaml:"token_share"`
	// MaxConnections bounds the open connections of all kinds; 0: see Config.Connections.
	MaxConnections int `yaml:"max_connections"`

	// a step over /ws or a call over /mcp is answered within this time; 0: no bound
	StepTimeout time.Duration `yaml:"step_timeout"`

	// bearer tokens; required for a listener beyond loopback
	Tokens []string `yaml:"tokens"`
	// Hosts are names, beside localhost, by which clients reach a server without tokens; requests for other
	// names are refused.
	Hosts []string `yaml:"hosts"`
	// TokensFile lists more tokens: a YAML list of name, sha256 (of the token, in hex) and scope (client or operator).
	TokensFile string `yaml:"tokens_file"`
	// CodecOrigins are the web origins (of a Temporal UI) that may decrypt payloads.
	CodecOrigins []string `yaml:"codec_origins"`
	// TemporalUI is the base URL of Temporal's UI, to which the page links; "": none.
	TemporalUI string `yaml:"temporal_ui"`
	// KeepSessions is how long the store keeps an unused session, and a file that a client has sent.
	KeepSessions time.Duration `yaml:"keep_sessions"`
	// UploadsMiB bounds the files that the store keeps for one token.
	UploadsMiB int `yaml:"uploads_mib"`
	// Search keeps an index of the transcripts of ended rollouts, of at most SearchMiB; 0: no bound.
	Search    bool `yaml:"search"`
	SearchMiB int  `yaml:"search_mib"`
}

// Sessions returns serve.max_sessions or its default. Clients of task sets keep many rollouts in flight,
// each in a session of its own: TRL's worker 128.
func (c Config) Sessions() int {
	switch {
	case c.Serve.MaxSessions > 0:
		return c.Serve.MaxSessions
	case len(c.TaskSets) > 0:
		return 1024
	default:
		return 64
	}
}

// Connections returns serve.max_connections or its default: twice the sessions, at least 1024.
func (c Config) Connections() int {
	if c.Serve.MaxConnections > 0 {
		return c.Serve.MaxConnections
	}

	return max(2*c.Sessions(), 1024)
}

// Temporal is the cluster that runs the workflows.
type Temporal struct {
	// empty: that of Env, else 127.0.0.1:7233
	Address string `yaml:"address"`

	// empty: that of Env, else "default"
	Namespace string `yaml:"namespace"`
	// Env are the TEMPORAL_* variables that Temporal's own tools read too (TLS files, API key, profile).
	Env map[string]string `yaml:"-"`
}

// Secured reports whether there are credentials that a server can check: a client certificate, an API key,
// or a profile that has them.
func (t Temporal) Secured() bool {
	for _, name := range []string{
		"TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_CERT_PATH", "TEMPORAL_TLS_CLIENT_CERT_DATA",
		"TEMPORAL_PROFILE",
	} {
		if t.Env[name] != "" {
			return true
		}
	}

	return false
}

// Worker has the settings of the worker role.
type Worker struct {
	// Listen is the address of the host's API, by which servers of the deployment read its rollouts; port
	// 0: any free one. Advertise is the URL by which they reach it; empty: the listener's own address.
	Listen    string `yaml:"listen"`
	Advertise string `yaml:"advertise"`

	// Name is the host's name in the deployment, by which its rollouts find it again; empty: generated at
	// the first start and kept in the data folder.
	Name string `yaml:"name"`

	// sandboxes with an agent at once; 0: as many as memory allows
	Capacity int `yaml:"capacity"`
	// TokenShare is the part of the sandboxes of a backend on this host that the rollouts of one token may take.
	TokenShare float64 `yaml:"token_share"`

	// agents and images brought up at once; 0: one for each core
	Starts int `yaml:"starts"`

	// a sandbox ends itself if no worker renews it for this long
	Lease time.Duration `yaml:"lease"`

	// interval between two searches for orphans
	Janitor time.Duration `yaml:"janitor"`

	// a sandbox younger than this is not an orphan
	Grace time.Duration `yaml:"grace"`
	// ToolsListen is a separate address for the host's tool service, to which the server sends the calls of
	// episodes; empty: Listen. ToolsURL is its URL for the server; empty: http:// and the address, or that
	// of Listen.
	ToolsListen string `yaml:"tools_listen"`
	ToolsURL    string `yaml:"tools_url"`
	// Deployment is the name of the Temporal worker deployment that this build is a version of; empty:
	// workflows are not versioned.
	Deployment string `yaml:"deployment"`
}

// Sandbox has the settings of the local driver and the default size of a sandbox. Zero sizes mean the
// sandbox package's defaults.
type Sandbox struct {
	// path of sandboxd; empty: beside this binary, in Data/bin, or in PATH
	Sandboxd string `yaml:"sandboxd"`

	// a root file system folder; empty: the host's /usr, read-only
	Image     string  `yaml:"image"`
	AllowWeak bool    `yaml:"allow_weak"`
	CPU       float64 `yaml:"cpu"`
	MemoryMiB int     `yaml:"memory_mib"`
	PIDs      int     `yaml:"pids"`
	HomeMiB   int     `yaml:"home_mib"`
	TmpMiB    int     `yaml:"tmp_mib"`

	// folder of the agents' programs; empty: agents in Data
	AgentsDir string `yaml:"agents_dir"`

	// sandboxes of each backend that wait for a rollout; 0: none
	Warm int `yaml:"warm"`

	// local sandboxes may swap, and the memory of a stopped agent is swapped out
	Swap bool `yaml:"swap"`

	// Network bounds the hosts that tasks may ask to reach.
	Network Network `yaml:"network"`
	// Images are the OCI images that tasks name.
	Images Images `yaml:"images"`

	// Docker is the daemon of the backend docker.
	Docker Docker `yaml:"docker"`
	// E2B is the account of the backend e2b.
	E2B E2B `yaml:"e2b"`

	// Backends has the deployment's backends by name; empty: local only. Each worker creates sandboxes of all of them.
	Backends map[string]Backend `yaml:"backends"`
}

// Docker has the settings of the backend docker.
type Docker struct {
	// unix:///path, tcp://host:2376 or ssh://user@host; empty: unix:///var/run/docker.sock
	Host string `yaml:"host"`

	// a folder with ca.pem, cert.pem and key.pem, for a tcp address; empty: no TLS
	CertPath string `yaml:"cert_path"`

	// image of sandboxes that name none; empty: each must name one
	Image string `yaml:"image"`

	// an OCI runtime of the daemon; empty: its default
	Runtime string `yaml:"runtime"`

	// the daemon does not see the files of this machine, although its address is a socket
	Remote bool `yaml:"remote"`
}

// Network bounds what tasks may ask to reach.
type Network struct {
	// Max are the hosts that any task may ask for: names, *.domain, "*" for all public hosts, each with or
	// without a port. Empty: none.
	Max []string `yaml:"max"`
	// AllowHosts are the special hosts (loopback, private, link-local) that may be reached; see package
	// egress for the patterns.
	AllowHosts []string `yaml:"allow_hosts"`
}

// Backend is one kind of sandbox.
type Backend struct {
	// Total is what all agents' sandboxes of a host may use together. Memory 0: what the host has, or what
	// worker.capacity needs; CPU and disk 0: unbounded.
	Total rollout.Resources `yaml:"total"`
	// Max is what one sandbox may ask for; zero fields are defaultMax's.
	Max rollout.Resources `yaml:"max"`
}

// defaultMax bounds the size of one sandbox where the operator sets no bound.
func defaultMax() rollout.Resources {
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
		most, d := s.Backends[name].Max, defaultMax()
		all[name] = rollout.Resources{
			CPU:       cmp.Or(most.CPU, d.CPU),
			MemoryMiB: cmp.Or(most.MemoryMiB, d.MemoryMiB),
			DiskMiB:   cmp.Or(most.DiskMiB, d.DiskMiB),
		}
	}

	return all
}

// Store is where results, traces and logs are kept.
type Store struct {
	// a folder, or a blob URL; empty: Data/store
	URL string `yaml:"url"`
	// RolloutMiB bounds what each attempt of a rollout stores, mainly its workspace; 0: unbounded.
	RolloutMiB int `yaml:"rollout_mib"`
	// MinFreeMiB and MaxMiB are high-water marks: with less space left on the store's disk, or more in the
	// store, no rollout begins. 0: none.
	MinFreeMiB int `yaml:"min_free_mib"`
	MaxMiB     int `yaml:"max_mib"`
}

// Retention deletes old rollouts; without rules nothing is deleted.
type Retention struct {
	// between two runs
	Every time.Duration `yaml:"every"`

	// applied in turn; a rollout goes with the first that allows it
	Rules []RetentionRule `yaml:"rules"`
}

// RetentionRule allows the deletion of rollouts; see package retention for what is never deleted.
type RetentionRule struct {
	// least time since the last write
	OlderThan time.Duration `yaml:"older_than"`

	// none: all
	Outcomes []rollout.Outcome `yaml:"outcomes"`

	// the oldest go until the store holds at most so much; 0: age decides alone
	MaxMiB int64 `yaml:"max_mib"`
}

// Model is the scripted model server of the model role.
type Model struct {
	Listen string `yaml:"listen"`

	// a YAML file; empty: the built-in demo scripts
	Script string `yaml:"script"`
}

// Limits are the default limits of a rollout; a zero field means the built-in default. The agent's time
// limit is agent_timeout_s, whose default is part of the tools' interface.
type Limits struct {
	Call     time.Duration `yaml:"call"`
	Setup    time.Duration `yaml:"setup"`
	Verifier time.Duration `yaml:"verifier"`
	Rollout  time.Duration `yaml:"rollout"`
	Queue    time.Duration `yaml:"queue"`
	Attempts int           `yaml:"attempts"`
}

// Over returns base with the limits that are set.
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
	// /metrics and /healthz; empty: off
	Listen string `yaml:"listen"`

	// base URL of an OTLP/HTTP collector; empty: no traces
	OTLPEndpoint string `yaml:"otlp_endpoint"`

	// service.name of spans
	Service string `yaml:"service"`
}
