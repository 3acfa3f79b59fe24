// Package rollout has the types of the domain: the request (Spec, Task), its progress (State, Phase) and
// its result (Result, Turn, Outcome). Of this module it imports only the error kinds, and it does no I/O.
package rollout

import (
	"net/url"
	"time"
)

// Places inside every sandbox; both generations of rollout clients rely on them.
const (
	Home        = "/home/user"
	Workdir     = Home + "/workdir"
	TestsDir    = Home + "/tests"
	TestScript  = TestsDir + "/test.sh"
	VerifierDir = Home + "/logs/verifier"
	RewardFile  = VerifierDir + "/reward.txt"
	AgentLogDir = Home + "/logs/agent"

	// the log of OpenCode
	AgentLog = AgentLogDir + "/opencode.jsonl"
	// Packages is the folder of the user's Python packages. Python runs usercustomize.py and *.pth files in
	// it at every start.
	Packages = Home + "/.local/lib"
	ModelURL = "http://127.0.0.1:7000/v1"
)

// Spec is one rollout as asked for, validated and resolved: everything a worker needs, on any host. It is
// the workflow's input and therefore part of stored histories: fields are added, never renamed or removed.
type Spec struct {
	ID      string `json:"id"`
	GroupID string `json:"group_id,omitempty"`

	// name of the token that asked for it; empty on a server without tokens
	Owner string `json:"owner,omitempty"`
	Task  Task   `json:"task"`

	// a name of the deployment's registry, such as AgentOpencode
	Agent string `json:"agent"`

	// settings of AgentReact
	React *React `json:"react,omitempty"`

	// settings of AgentInteractive
	Episode *Episode `json:"episode,omitempty"`
	Mode    Mode     `json:"mode"`
	Model   Model    `json:"model"`
	Limits  Limits   `json:"limits"`
	Sandbox Sandbox  `json:"sandbox"`
	// Messages is how much of each prompt the result's turns have.
	Messages MessagesMode `json:"messages,omitempty"`
}

// Task is what is asked: instruction, setup, files, verifier.
type Task struct {
	ID string `json:"id,omitempty"`
	// Set is the configured task set that the task is of; "": none is known.
	Set         string `json:"set,omitempty"`
	Instruction string `json:"instruction"`

	// absolute path under Home, or relative to Workdir → text
	Files map[string]string `json:"files,omitempty"`
	// FilesRef is the archive in the store that holds Files once the rollout has started; a tar below Home.
	FilesRef *Ref `json:"files_ref,omitempty"`
	// Uploads are files that the owner has uploaded before, by the SHA-256 of their content in hex; paths
	// are those of Files. They are in the archives, too, once the rollout has started.
	Uploads map[string]string `json:"uploads,omitempty"`

	// bash commands, run one by one; the first that fails ends the rollout
	Setup    []string `json:"setup,omitempty"`
	Verifier Verifier `json:"verifier"`
	// Solution are bash commands that solve the task, run one by one by the agent "oracle". No other
	// agent's sandbox gets them.
	Solution []string `json:"solution,omitempty"`
	// ObeyProject lets the agent read the task repository's own opencode.json, AGENTS.md and the like.
	ObeyProject bool `json:"obey_project,omitempty"`
	// Steps are the parts of the task; empty: it is one. A task with steps has no work of its own: Instruction is for
	// people then.
	Steps []Step `json:"steps,omitempty"`
	// RewardStrategy makes the rollout's reward of those of its steps.
	RewardStrategy RewardStrategy `json:"reward_strategy,omitempty"`
}

// Mode is how model calls reach the endpoint.
type Mode string

const (
	// through the gateway, every call captured
	TransparentProxy Mode = "transparent_proxy"

	// through the model channel, uncaptured
	BlackBox Mode = "black_box"
)

// MessagesMode is how much of each prompt the turns of a result have; the trace always has all.
type MessagesMode string

const (
	// messages that the previous turn of the lineage did not have; system messages are cut
	MessagesDelta MessagesMode = ""

	// all, in each turn
	MessagesFull MessagesMode = "full"
	MessagesNone MessagesMode = "none"
)

// Model is a resolved model endpoint.
type Model struct {
	// the catalogue's name, for people
	Endpoint string `json:"endpoint,omitempty"`

	// OpenAI-compatible, ends in /v1; several with commas are engines of one endpoint
	BaseURL string `json:"base_url"`

	// BaseURL is the caller's own, not what the server has for that endpoint
	Own bool `json:"own,omitempty"`

	// the upstream's name of the model
	Name string `json:"name"`
	// SealedKey is the API key under the deployment's encryption key (see internal/seal); only the gateway opens it.
	SealedKey string `json:"sealed_key,omitempty"`

	// clamp of each call's max_tokens; ≤ 0: none
	MaxTokensCap int `json:"max_tokens_cap"`

	// the endpoint accepts logprobs and top_logprobs
	Logprobs    bool `json:"logprobs"`
	TopLogprobs int  `json:"top_logprobs"`

	// the endpoint accepts vLLM's return_token_ids
	TokenIDs bool `json:"token_ids"`
	// Thinking: nil leaves the model's own default; otherwise chat_template_kwargs.enable_thinking is sent.
	Thinking *bool `json:"thinking,omitempty"`

	// nil: not known
	Price *Price `json:"price,omitempty"`
	// Sampling are the parameters of every call; nil leaves them to the agent.
	Sampling *Sampling `json:"sampling,omitempty"`
	Purpose  Purpose   `json:"purpose,omitempty"`
	// Translate: calls of other model APIs go upstream as calls of this one; the agent keeps its own.
	Translate Translate `json:"translate,omitempty"`
	// Continuation is how the calls of an agent continue a conversation, and UserTurn how they do so at a user message
	// after a final answer; "": as the gateway is configured.
	Continuation Continuation `json:"continuation,omitempty"`
	UserTurn     UserTurn     `json:"user_turn,omitempty"`
	// OnEngineFault is what happens to replies with a fault of the engine; "": as the gateway is configured.
	OnEngineFault OnEngineFault `json:"on_engine_fault,omitempty"`
	// RoutedExperts: ask for the experts that the engine's router chose; false: as the gateway is configured.
	RoutedExperts bool `json:"routed_experts,omitempty"`
	// SamplingMasks: ask for the tokens from which the sampler chose. Training may then sample with top_k, top_p and min_p.
	SamplingMasks bool `json:"sampling_masks,omitempty"`
	// Images reports whether the model sees images; nil: the endpoint's answers show it. Where it does not, a text is
	// sent in their place.
	Images *bool `json:"images,omitempty"`
}

// Upstream is the name of the model's endpoint for bounds and pauses: its name in the catalog; host:port
// if only a URL was given; name@host:port if both were given, which is a server apart from the one in the
// catalog.
func (m Model) Upstream() string {
	switch {
	case m.Endpoint == "":
		return m.host()
	case m.Own:
		return m.Endpoint + "@" + m.host()
	default:
		return m.Endpoint
	}
}

// ClientGiven reports whether the base URL is a client's and not of the operator's configuration.
func (m *Model) ClientGiven() bool { return m.Endpoint == "" || m.Own }

// Label is the endpoint as a label of metrics, which must have few values: its name in the catalog, "other" for an
// address that a client gave, "none" without a model.
func (m *Model) Label() string {
	switch {
	case m.BaseURL == "":
		return "none"
	case m.ClientGiven():
		return OtherLabel
	default:
		return m.Endpoint
	}
}

// OtherLabel is the value of a metric's label for all that clients name freely.
const OtherLabel = "other"

// host is the host and port of the base URL, or all of a URL that cannot be parsed.
func (m Model) host() string {
	u, err := url.Parse(m.BaseURL)
	if err != nil {
		return m.BaseURL
	}

	return u.Host
}

// Limits bounds a rollout. Durations nest: Call < Agent, and Setup+Agent+Verifier+Collect ≤ Rollout. The tags define a
// bound: its name in histories, its name as an argument (durations are in seconds there), and its description.
type Limits struct {
	Call     time.Duration `json:"call" arg:"limits.call_s" jsonschema:"time limit of one model call including retries, in seconds"`
	Setup    time.Duration `json:"setup" arg:"limits.setup_s" jsonschema:"time limit of all setup commands together, in seconds"`
	Agent    time.Duration `json:"agent" arg:"agent_timeout_s" jsonschema:"time limit of the agent, in seconds of wall time"`
	Verifier time.Duration `json:"verifier" arg:"limits.verifier_s" jsonschema:"time limit of the verifier, in seconds"`
	Collect  time.Duration `json:"collect" arg:"limits.collect_s" jsonschema:"time limit of the collection of results, in seconds"`
	// Rollout counts from the first sandbox on, Queue is the wait before it.
	Rollout time.Duration `json:"rollout" arg:"limits.rollout_s" jsonschema:"time limit of the rollout over all attempts, in seconds"`
	Queue   time.Duration `json:"queue" arg:"limits.queue_s" jsonschema:"longest wait for a host with room, in seconds"`

	FirstCall time.Duration `json:"first_call" arg:"limits.first_call_s" jsonschema:"time limit for the agent's first model call, in seconds"`
	Quiet     time.Duration `json:"quiet" arg:"limits.quiet_s" jsonschema:"seconds without activity after which the agent is ended"`

	Held time.Duration `json:"held,omitempty" arg:"limits.held_s" jsonschema:"largest extension of agent_timeout_s, in seconds, for time in which the gateway paused model calls or no worker ran the agent"`

	// Attempts is at least 1 when filled; 0 sets no bound for the others.
	Attempts         int     `json:"attempts" arg:"limits.attempts" jsonschema:"largest number of attempts when infrastructure fails"`
	Turns            int     `json:"turns,omitempty" arg:"limits.turns" jsonschema:"limit of the agent's model calls"`
	PromptTokens     int64   `json:"prompt_tokens,omitempty" arg:"limits.prompt_tokens" jsonschema:"limit of the prompt tokens of all model calls"`
	CompletionTokens int64   `json:"completion_tokens,omitempty" arg:"limits.completion_tokens" jsonschema:"limit of the completion tokens of all model calls"`
	Cost             float64 `json:"cost,omitempty" arg:"limits.cost" jsonschema:"limit of the cost of all model calls, in US dollars. The price of the model must be known"`
}

// Sandbox is what the task asks of its sandbox; zero values take the backend's defaults.
type Sandbox struct {
	// "local"
	Backend string `json:"backend,omitempty"`
	Image   string `json:"image,omitempty"`

	// cores
	CPU float64 `json:"cpu,omitempty"`

	// whole sandbox, tmpfs included
	MemoryMiB int `json:"memory_mib,omitempty"`

	// home directory
	DiskMiB int `json:"disk_mib,omitempty"`
	// User is the agent's account in an image: UserRoot, UserOfImage, an account of the image, or "" for
	// the user 1000. Workdir is a folder of the image that becomes the workdir, or WorkdirOfImage. ImageEnv
	// starts processes with the image's environment. GradePaths are further folders that are graded.
	User       string   `json:"user,omitempty"`
	Workdir    string   `json:"workdir,omitempty"`
	ImageEnv   bool     `json:"image_env,omitempty"`
	GradePaths []string `json:"grade_paths,omitempty"`
	// Env are variables for all processes of the task. They are in the history, and are no secrets.
	Env map[string]string `json:"env,omitempty"`
	// Network is what the processes of the sandbox may reach, through a proxy of the host; nil: nothing but
	// the model channel.
	Network *Network `json:"network,omitempty"`
	// Services run beside the sandbox, each in a sandbox of its own. Volumes are folders that they share with it.
	Services []Service `json:"services,omitempty"`
	Volumes  []Volume  `json:"volumes,omitempty"`
	// MCPServers are the task's own tools for the agent. SkillsDir is the folder of its skills: an absolute path, or
	// relative to the workdir.
	MCPServers []MCPServer `json:"mcp_servers,omitempty"`
	SkillsDir  string      `json:"skills_dir,omitempty"`
	// Changed are folders outside of the workdir, the home and GradePaths that the agent has changed. Only
	// the grader sets it, for a verifier's sandbox: it is no part of a task.
	Changed []string `json:"-"`
}

// Names of agents that every deployment has.
const (
	AgentOpencode = "opencode"

	// acts by tool calls, in a loop on the host
	AgentReact = "react"

	// runs the task's solution
	AgentOracle = "oracle"

	// does nothing
	AgentNop = "nop"
	// AgentInteractive waits for the tool calls of a client; see Episode.
	AgentInteractive = "interactive"
)

// NeedsModel reports whether rollouts of the agent need a model endpoint.
func NeedsModel(agent string) bool {
	return agent != AgentOracle && agent != AgentNop && agent != AgentInteractive
}
