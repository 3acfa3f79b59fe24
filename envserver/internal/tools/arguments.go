package tools

import "github.com/rolloutd/rolloutd/internal/rollout"

// RolloutArgs are the arguments of run_rollout and start_rollout: those of both generations of OpenEnv
// clients, and our own. The field order is the order of the published schema.
type RolloutArgs struct {
	Instruction     string            `json:"instruction" jsonschema:"task in words, given to the agent as its prompt"`
	ModelKey        string            `json:"model_key,omitempty" jsonschema:"model by catalogue key: vllm://REPO or hf-router://REPO:PROVIDER"`
	VLLMURL         string            `json:"vllm_url,omitempty" jsonschema:"OpenAI-compatible base URL for a vllm:// key"`
	HFToken         string            `json:"hf_token,omitempty" jsonschema:"token of the Hugging Face router, for an hf-router:// key"`
	Thinking        bool              `json:"thinking,omitempty" jsonschema:"enable the model's reasoning mode, if it has one"`
	Endpoint        string            `json:"endpoint,omitempty" jsonschema:"model endpoint by name: vllm, openai, hf_router or scripted. The server's environment has its URL and key"`
	BaseURL         string            `json:"base_url,omitempty" jsonschema:"OpenAI-compatible base URL of the model endpoint. Overrides that of endpoint"`
	APIKey          string            `json:"api_key,omitempty" jsonschema:"API key of the model endpoint. Overrides that of endpoint"`
	Model           string            `json:"model,omitempty" jsonschema:"name of the model at the endpoint. Overrides that of endpoint"`
	DisableThinking *bool             `json:"disable_thinking,omitempty" jsonschema:"true disables the model's reasoning mode; null uses the catalogue's setting for the model"`
	Images          *bool             `json:"images,omitempty" jsonschema:"whether the model accepts images. If not, a text replaces each image. null: as the server is configured, or as the endpoint's answers show"`
	TestScript      string            `json:"test_script,omitempty" jsonschema:"bash script that grades the work after the agent has ended. It writes a number to the reward file"`
	SetupShell      string            `json:"setup_shell,omitempty" jsonschema:"shell script that runs before the agent starts. The rollout ends if it fails"`
	UploadFiles     map[string]string `json:"upload_files,omitempty" jsonschema:"text files to write into the sandbox before the agent starts, by path"`
	Uploads         map[string]string `json:"uploads,omitempty" jsonschema:"files that PUT /uploads/SHA256 has sent before, to write like upload_files: SHA-256 in hex, by path"`
	Setup           []string          `json:"setup,omitempty" jsonschema:"bash commands that run in order before the agent starts. The rollout ends at the first that fails"`
	Verify          []string          `json:"verify,omitempty" jsonschema:"bash commands that run in order after the agent has ended. The reward is the share of commands that exit with 0"`
	Solution        []string          `json:"solution,omitempty" jsonschema:"bash commands that solve the task, for the agent oracle. Sandboxes of other agents do not contain them"`
	TestFiles       map[string]string `json:"test_files,omitempty" jsonschema:"text files of the verifier, written into its tests folder after the agent has ended, by name"`
	RewardRange     []float64         `json:"reward_range,omitempty" jsonschema:"smallest and largest reward that test_script may write. Default: [0, 1]"`
	RewardKey       string            `json:"reward_key,omitempty" jsonschema:"name of the reward if test_script writes several to reward.json, or names separated by commas: the first that is there counts. Default: reward, or the only one"`
	OnTimeout       string            `json:"on_timeout,omitempty" jsonschema:"after a verifier timeout: null gives no reward; by default, commands that did not finish count as failed"`
	Verifier        *VerifierArgs     `json:"verifier,omitempty" jsonschema:"grading by other means than verify or test_script"`
	Steps           []StepArgs        `json:"steps,omitempty" jsonschema:"parts of the task, which run in order. Each begins with a new conversation in the work that the one before left, and is graded for itself. Files, setup, solution and verifier are then those of the steps"`
	RewardStrategy  string            `json:"reward_strategy,omitempty" jsonschema:"reward of a task with steps: mean (of the steps that were graded) or final (of the last step that ran). Default: mean"`
	NoVerify        bool              `json:"no_verify,omitempty" jsonschema:"do not grade the work, even if the task has a verifier"`
	TaskID          string            `json:"task_id,omitempty" jsonschema:"task id chosen by the client; returned in the result"`
	Mode            string            `json:"mode,omitempty" jsonschema:"transparent_proxy captures every model call; black_box captures none"`
	MaxTokensCap    int               `json:"max_tokens_cap,omitempty" jsonschema:"upper bound of max_tokens in each model call; 0 or less: no bound"`
	TopLogprobs     int               `json:"top_logprobs,omitempty" jsonschema:"number of alternatives per token that the model endpoint returns with their log probabilities"`
	Price           *rollout.Price    `json:"price,omitempty" jsonschema:"price of the model's tokens. Overrides the server's configuration"`
	Translate       string            `json:"translate,omitempty" jsonschema:"chat_completions: the gateway translates calls of other model APIs to chat completions, for which engines return token ids. Default: as the server is configured for the endpoint"`
	Continuation    string            `json:"continuation,omitempty" jsonschema:"how an agent that repeats its conversation with each call continues it: auto by token ids where the endpoint takes them, messages, or required by token ids alone. Default: as the server is configured for the endpoint"`
	UserTurn        string            `json:"user_turn,omitempty" jsonschema:"at a user message after a final answer: continue by the token ids so far, or render a new prompt from the messages. Default: as the server is configured for the endpoint"`
	OnEngineFault   string            `json:"on_engine_fault,omitempty" jsonschema:"what happens to a reply with a fault that is provably the engine's: keep records it, mask does not train on the turn, replace makes the call again. Default: as the server is configured for the endpoint"`
	RoutedExperts   bool              `json:"routed_experts,omitempty" jsonschema:"record which experts the engine's router chose for each token, where the engine of a mixture of experts gives them. Default: as the server is configured for the endpoint"`
	SamplingMasks   bool              `json:"sampling_masks,omitempty" jsonschema:"record for each sampled token the tokens that top_k, top_p and min_p left to the sampler, as SGLang gives them. For training, sampling must then have a top_k and may have the others; a turn without its mask is not trained on"`
	AgentTimeoutS   float64           `json:"agent_timeout_s,omitempty" jsonschema:"time limit of the agent, in seconds of wall time"`
	Template        string            `json:"template,omitempty" jsonschema:"sandbox template or image; the same as sandbox.image"`
	RolloutID       string            `json:"rollout_id,omitempty" jsonschema:"rollout id chosen by the client (idempotency key): a repeated id returns the existing rollout"`
	Agent           string            `json:"agent,omitempty" jsonschema:"name of the agent"`
	React           *rollout.React    `json:"react,omitempty" jsonschema:"settings of the agent react"`
	Episode         *EpisodeArgs      `json:"episode,omitempty" jsonschema:"settings of the agent interactive"`
	GroupID         string            `json:"group_id,omitempty" jsonschema:"id of the group that the rollout belongs to: rollouts of one task whose rewards are compared"`
	Limits          LimitArgs         `json:"limits,omitempty" jsonschema:"limits of the rollout, in seconds, tokens or US dollars. A missing limit has the server's default"`
	OnDisconnect    string            `json:"on_disconnect,omitempty" jsonschema:"whether a disconnect of the client aborts the rollout (abort) or lets it finish (continue)"`
	Sandbox         *SandboxArgs      `json:"sandbox,omitempty" jsonschema:"CPU, memory, disk, image and user of the sandbox"`
	Network         *NetworkArgs      `json:"network,omitempty" jsonschema:"hosts that the task may reach through the server's proxy. Default: none"`
	AllowNetwork    *bool             `json:"allow_network,omitempty" jsonschema:"true: the task may reach every host that the operator allows, in each phase for which network has no list. Default: the hosts in network"`
	RequireSandbox  bool              `json:"require_sandbox,omitempty" jsonschema:"accepted for compatibility; a rollout always runs in a sandbox"`
	RequireStateful bool              `json:"require_stateful_sandbox,omitempty" jsonschema:"accepted for compatibility; a rollout always runs in a sandbox"`
	Messages        string            `json:"messages,omitempty" jsonschema:"prompts in the turns of the result: delta has only new messages, full has all, none has no messages. The trace always has all"`
	Purpose         string            `json:"purpose,omitempty" jsonschema:"train: refuse an endpoint without token ids and log probabilities; eval: train on no turn; auto: train if the endpoint returns both"`
	Pinned          *rollout.Sampling `json:"sampling,omitempty" jsonschema:"sampling parameters that replace the agent's in every model call. For training, those that change log probabilities must be neutral"`
	EvalPinned      *rollout.Sampling `json:"eval_sampling,omitempty" jsonschema:"sampling parameters for purpose eval, in place of sampling; they may have any value. Without effect for other purposes"`
	rollout.Sampling
}

// StepArgs are one step of a task; the fields are those of RolloutArgs.
type StepArgs struct {
	Name          string             `json:"name" jsonschema:"name of the step, unique in the task"`
	Instruction   string             `json:"instruction" jsonschema:"instruction of the step, given to the agent as its prompt"`
	UploadFiles   map[string]string  `json:"upload_files,omitempty" jsonschema:"text files to write into the sandbox before the step, by path"`
	Uploads       map[string]string  `json:"uploads,omitempty" jsonschema:"files that PUT /uploads/SHA256 has sent before, to write like upload_files: SHA-256 in hex, by path"`
	Setup         []string           `json:"setup,omitempty" jsonschema:"bash commands that run in order before the step. In the first step a failure ends the rollout; in later ones it is the agent's, and the step earns 0"`
	Solution      []string           `json:"solution,omitempty" jsonschema:"bash commands that solve the step, for the agent oracle"`
	Verify        []string           `json:"verify,omitempty" jsonschema:"bash commands that grade the step; the reward is the share of commands that exit with 0"`
	TestScript    string             `json:"test_script,omitempty" jsonschema:"bash script that grades the step. It writes a number to the reward file"`
	TestFiles     map[string]string  `json:"test_files,omitempty" jsonschema:"text files of the step's verifier, by name"`
	RewardRange   []float64          `json:"reward_range,omitempty" jsonschema:"smallest and largest reward that test_script may write. Default: [0, 1]"`
	RewardKey     string             `json:"reward_key,omitempty" jsonschema:"name of the step's reward if test_script writes several to reward.json"`
	MinReward     map[string]float64 `json:"min_reward,omitempty" jsonschema:"least rewards by name with which the next step begins; reward is the step's own. If one is missed, the rollout ends with this step"`
	AgentTimeoutS float64            `json:"agent_timeout_s,omitempty" jsonschema:"time limit of the agent in this step, in seconds. Default: that of the rollout"`
	VerifierS     float64            `json:"verifier_s,omitempty" jsonschema:"time limit of the step's verifier, in seconds. Default: that of the rollout"`
}

// LimitArgs are rollout.Limits by argument name, without "limits."; a missing one has the server's default.
type LimitArgs map[string]float64

// SandboxArgs describe the sandbox of a rollout; zero values take the backend's defaults.
type SandboxArgs struct {
	Backend    string   `json:"backend,omitempty" jsonschema:"sandbox backend: local, docker or e2b"`
	Image      string   `json:"image,omitempty" jsonschema:"image or template of the sandbox; the same as the argument template"`
	CPU        float64  `json:"cpu,omitempty" jsonschema:"CPU cores; fractions are allowed"`
	Memory     string   `json:"memory,omitempty" jsonschema:"memory of the sandbox, such as 2GiB or 512MiB; a plain number is in MiB"`
	MemoryMiB  int      `json:"memory_mib,omitempty" jsonschema:"memory of the sandbox, in MiB; the same as memory"`
	DiskMiB    int      `json:"disk_mib,omitempty" jsonschema:"size of the home directory, in MiB"`
	User       string   `json:"user,omitempty" jsonschema:"user of the image that the agent runs as: root, image (the user that the image names), or a name or id, with :group if needed. It is unprivileged on the host. Default: user 1000"`
	Workdir    string   `json:"workdir,omitempty" jsonschema:"folder of the image to use as the working directory; image: the folder that the image names"`
	ImageEnv   bool     `json:"image_env,omitempty" jsonschema:"start processes with the environment variables of the image"`
	GradePaths []string `json:"grade_paths,omitempty" jsonschema:"more folders of the image whose changes the verifier sees, besides the working directory and home"`
	// not secret
	Env     map[string]string `json:"env,omitempty" jsonschema:"environment variables for all processes of the task, by name. They are kept in its history, so they must not be secrets"`
	Network string            `json:"network,omitempty" jsonschema:"none: the sandbox has no network of its own. The argument network names the hosts that the task may reach"`
	// on the backend local
	Services []rollout.Service `json:"services,omitempty" jsonschema:"programs, such as databases, that run beside the agent's sandbox, each in a sandbox of its own. Their names mean 127.0.0.1 in all of them"`
	Volumes  []rollout.Volume  `json:"volumes,omitempty" jsonschema:"folders that the sandbox shares with its services"`

	MCPServers []rollout.MCPServer `json:"mcp_servers,omitempty" jsonschema:"MCP servers whose tools the agent opencode has beside its own. They run in the sandbox, are services beside it, or are at hosts that the agent may reach"`
	SkillsDir  string              `json:"skills_dir,omitempty" jsonschema:"folder with skills for the agent opencode: an absolute path, or relative to the working directory"`
}

// NetworkArgs are hosts that a task may reach: names, *.domain, with or without a port.
type NetworkArgs struct {
	Allow []string `json:"allow,omitempty" jsonschema:"hosts for setup and the agent: example.org, *.example.org, example.org:8443"`
	Setup []string `json:"setup,omitempty" jsonschema:"hosts for setup only"`
	Agent []string `json:"agent,omitempty" jsonschema:"hosts for the agent only"`
}

// idArgs are the arguments of the tools about one rollout.
type idArgs struct {
	RolloutID string `json:"rollout_id" jsonschema:"id of the rollout, as start_rollout or run_rollout returned it"`
}

type finalizeArgs struct {
	idArgs
	WaitS float64 `json:"wait_s,omitempty" jsonschema:"longest wait for the result, in seconds"`
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

// CollectArgs are a command that makes artifacts.
type CollectArgs struct {
	Command  string  `json:"command" jsonschema:"bash command"`
	TimeoutS float64 `json:"timeout_s,omitempty" jsonschema:"longest time, in seconds; an hour for all commands together. Default: 60"`
}

// VerifierArgs configure the verifier.
type VerifierArgs struct {
	External  bool                `json:"external,omitempty" jsonschema:"keep the sandbox after the agent has ended, until a client posts a score to /rollouts/ID/score, for at most limits.verifier_s seconds"`
	Image     string              `json:"image,omitempty" jsonschema:"image of the verifier's sandbox, which then has nothing of the agent's but artifacts. Default: the image of the agent, with all of its work"`
	Artifacts []string            `json:"artifacts,omitempty" jsonschema:"files and folders, as absolute paths, that the verifier's image gets from the agent's sandbox. One that does not exist is missing there, too"`
	Exclude   map[string][]string `json:"exclude,omitempty" jsonschema:"by the path of a folder among artifacts, patterns of what is left out of it, as for --exclude of tar: *.pyc matches at any depth"`
	Collect   []CollectArgs       `json:"collect,omitempty" jsonschema:"bash commands that run in the agent's sandbox, as its user and in the workdir, before the artifacts are saved: they make artifacts of what the agent has left. One that fails is in grading.notes"`
	Grade     string              `json:"grade,omitempty" jsonschema:"fresh: all processes that the agent has left are ended before the work is graded. live: they go on, and verify or test_script reaches their TCP ports. shared: they are ended, and verify or test_script runs in the agent's sandbox as its user, with all that the agent has changed. Default: fresh"`
}
