package tools

import "github.com/rolloutd/rolloutd/internal/rollout"

// RolloutArgs are the arguments of run_rollout and start_rollout: those of both generations of OpenEnv
// clients, and our own. The field order is the order of the published schema.
type RolloutArgs struct {
	Instruction     string            `json:"instruction" jsonschema:"prompt for the agent"`
	ModelKey        string            `json:"model_key,omitempty" jsonschema:"model by catalogue key: vllm://<repo> or hf-router://<repo>:<provider>"`
	VLLMURL         string            `json:"vllm_url,omitempty" jsonschema:"OpenAI-compatible base URL; goes with a vllm:// key"`
	HFToken         string            `json:"hf_token,omitempty" jsonschema:"token for the router; goes with an hf-router:// key"`
	Thinking        bool              `json:"thinking,omitempty" jsonschema:"let the model think, where it can"`
	Endpoint        string            `json:"endpoint,omitempty" jsonschema:"model endpoint by name (vllm, openai, hf_router, scripted), completed from the server's environment"`
	BaseURL         string            `json:"base_url,omitempty" jsonschema:"OpenAI-compatible base URL; wins over the endpoint's"`
	APIKey          string            `json:"api_key,omitempty" jsonschema:"API key of the model endpoint; wins over the endpoint's"`
	Model           string            `json:"model,omitempty" jsonschema:"name of the model; wins over the endpoint's"`
	DisableThinking *bool             `json:"disable_thinking,omitempty" jsonschema:"switch the model's thinking off; null leaves it to the catalogue"`
	Images          *bool             `json:"images,omitempty" jsonschema:"whether the model sees images; null leaves it to the server's environment, or to what the endpoint answers; without vision a text is sent in the place of each image"`
	TestScript      string            `json:"test_script,omitempty" jsonschema:"bash verifier, run after the agent; writes a number to the reward file"`
	SetupShell      string            `json:"setup_shell,omitempty" jsonschema:"shell script run before the agent"`
	UploadFiles     map[string]string `json:"upload_files,omitempty" jsonschema:"files put into the sandbox before the agent: path to text"`
	Uploads         map[string]string `json:"uploads,omitempty" jsonschema:"files sent before by PUT /uploads/SHA256, put where upload_files are: path to SHA-256 in hex"`
	Setup           []string          `json:"setup,omitempty" jsonschema:"bash commands run one by one before the agent; the first that fails ends the rollout"`
	Verify          []string          `json:"verify,omitempty" jsonschema:"bash commands run one by one after the agent; the reward is the share that passed"`
	Solution        []string          `json:"solution,omitempty" jsonschema:"bash commands that solve the task, for the agent oracle; no other agent's sandbox gets them"`
	TestFiles       map[string]string `json:"test_files,omitempty" jsonschema:"files of the verifier, put into its tests folder after the agent has stopped: name to text"`
	RewardRange     []float64         `json:"reward_range,omitempty" jsonschema:"least and greatest reward that test_script may write; left out: [0, 1]"`
	RewardKey       string            `json:"reward_key,omitempty" jsonschema:"name of the reward, where test_script writes several to reward.json; left out: reward, or the only one"`
	OnTimeout       string            `json:"on_timeout,omitempty" jsonschema:"null: no reward when the verifier's time is up; left out: what did not end in time has failed"`
	Verifier        *VerifierArgs     `json:"verifier,omitempty" jsonschema:"how the work is graded, where it is not by verify or test_script"`
	NoVerify        bool              `json:"no_verify,omitempty" jsonschema:"leave the work ungraded, whatever verifier the task has"`
	TaskID          string            `json:"task_id,omitempty" jsonschema:"your name for the task; given back in the result"`
	Mode            string            `json:"mode,omitempty" jsonschema:"transparent_proxy captures every model call, black_box none"`
	MaxTokensCap    int               `json:"max_tokens_cap,omitempty" jsonschema:"upper bound of each call's max_tokens; 0 or less sets none"`
	TopLogprobs     int               `json:"top_logprobs,omitempty" jsonschema:"alternatives per token asked of the model endpoint"`
	Price           *rollout.Price    `json:"price,omitempty" jsonschema:"what the model costs; wins over the server's configuration"`
	Translate       string            `json:"translate,omitempty" jsonschema:"chat_completions: calls of the agent's own model API go upstream as chat completions, where engines give token ids; left out: as the server is configured for the endpoint"`
	AgentTimeoutS   float64           `json:"agent_timeout_s,omitempty" jsonschema:"wall time of the agent, in seconds"`
	Template        string            `json:"template,omitempty" jsonschema:"sandbox template or image"`
	RolloutID       string            `json:"rollout_id,omitempty" jsonschema:"your id for the rollout; the same id returns the same rollout"`
	Agent           string            `json:"agent,omitempty" jsonschema:"which agent runs"`
	React           *rollout.React    `json:"react,omitempty" jsonschema:"configuration of the agent react"`
	Episode         *EpisodeArgs      `json:"episode,omitempty" jsonschema:"configuration of the agent interactive"`
	GroupID         string            `json:"group_id,omitempty" jsonschema:"names the group of rollouts of one task"`
	Limits          LimitArgs         `json:"limits,omitempty" jsonschema:"bounds of the rollout; what is left out takes the server's default"`
	OnDisconnect    string            `json:"on_disconnect,omitempty" jsonschema:"what becomes of the rollout when you go away before it is done"`
	Sandbox         *SandboxArgs      `json:"sandbox,omitempty" jsonschema:"what the sandbox must have"`
	Network         *NetworkArgs      `json:"network,omitempty" jsonschema:"hosts that the task may reach through a proxy; left out: none"`
	AllowNetwork    *bool             `json:"allow_network,omitempty" jsonschema:"true: all hosts that the operator lets tasks reach; left out: those of network"`
	RequireSandbox  bool              `json:"require_sandbox,omitempty" jsonschema:"accepted: a rollout never runs without a sandbox"`
	RequireStateful bool              `json:"require_stateful_sandbox,omitempty" jsonschema:"accepted: a rollout never runs without a sandbox"`
	Messages        string            `json:"messages,omitempty" jsonschema:"how much of each prompt the result's turns have: delta what is new, full all; the trace has all"`
	Purpose         string            `json:"purpose,omitempty" jsonschema:"what the model calls are for: auto trains where the endpoint gives token ids"`
	Pinned          *rollout.Sampling `json:"sampling,omitempty" jsonschema:"parameters of every model call, whatever the agent asks for; for training those that shift log probabilities must be neutral"`
	EvalPinned      *rollout.Sampling `json:"eval_sampling,omitempty" jsonschema:"the same with purpose eval, of any value"`
	rollout.Sampling
}

// LimitArgs are rollout.Limits by argument name, without "limits."; a missing one has the server's default.
type LimitArgs map[string]float64

// SandboxArgs describe the sandbox of a rollout; zero values take the backend's defaults.
type SandboxArgs struct {
	Backend    string   `json:"backend,omitempty" jsonschema:"which sandbox backend"`
	Image      string   `json:"image,omitempty" jsonschema:"image or template; the same as the template argument"`
	CPU        float64  `json:"cpu,omitempty" jsonschema:"cores"`
	Memory     string   `json:"memory,omitempty" jsonschema:"memory of the whole sandbox, as 2GiB or 512MiB; a plain number counts MiB"`
	MemoryMiB  int      `json:"memory_mib,omitempty" jsonschema:"the same as memory, in MiB"`
	DiskMiB    int      `json:"disk_mib,omitempty" jsonschema:"size of the home directory"`
	User       string   `json:"user,omitempty" jsonschema:"the agent is this user of the image, an unprivileged user of the host: root, image (the one that the image names), or a name or an id with or without :group; default: the user 1000"`
	Workdir    string   `json:"workdir,omitempty" jsonschema:"folder of the image that is the workdir; image: the one that the image names"`
	ImageEnv   bool     `json:"image_env,omitempty" jsonschema:"processes start from the environment of the image"`
	GradePaths []string `json:"grade_paths,omitempty" jsonschema:"further folders of the image that the verifier gets as the agent left them"`
	Network    string   `json:"network,omitempty" jsonschema:"none: a sandbox has no network of its own; hosts that the task may reach are named in network"`
}

// NetworkArgs are hosts that a task may reach: names, *.domain, with or without a port.
type NetworkArgs struct {
	Allow []string `json:"allow,omitempty" jsonschema:"in setup and by the agent: example.org, *.example.org, example.org:8443"`
	Setup []string `json:"setup,omitempty" jsonschema:"in setup only"`
	Agent []string `json:"agent,omitempty" jsonschema:"by the agent only"`
}

// idArgs are the arguments of the tools about one rollout.
type idArgs struct {
	RolloutID string `json:"rollout_id" jsonschema:"id of the rollout, as start_rollout or run_rollout gave it"`
}

type finalizeArgs struct {
	idArgs
	WaitS float64 `json:"wait_s,omitempty" jsonschema:"how long to wait for the result, in seconds"`
}

func defaultRolloutArgs(agent string) RolloutArgs {
	return RolloutArgs{
		Mode: "transparent_proxy", MaxTokensCap: 4096, TopLogprobs: 5, AgentTimeoutS: 600,
		Agent: agent, OnDisconnect: onDisconnectContinue,
	}
}

// Values of on_disconnect.
const (
	onDisconnectContinue = "continue"
	onDisconnectAbort    = "abort"
)

// VerifierArgs configure the verifier.
type VerifierArgs struct {
	External bool `json:"external,omitempty" jsonschema:"hold the sandbox after the agent has ended, for limits.verifier_s at most, until a client gives a score: POST /rollouts/ID/score"`
}
