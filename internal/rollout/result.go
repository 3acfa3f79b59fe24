package rollout

import (
	"bytes"
	"encoding/json"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Result is what a client gets: the fields of both generations of the rollout tools, which are always
// present, and further fields.
type Result struct {
	// Both generations.
	TaskID       string        `json:"task_id"`
	SandboxID    string        `json:"sandbox_id"`
	Reward       *float64      `json:"reward"`
	WallS        float64       `json:"wall_s"`
	Mode         Mode          `json:"mode"`
	Error        *string       `json:"error"`
	AgentLogTail string        `json:"agent_log_tail"`
	ProxyLogTail string        `json:"proxy_log_tail"`
	ProxyTurns   []CompactTurn `json:"proxy_turns"`

	// Generation 1.
	ExitCode       int               `json:"exit_code"`
	WorkdirFiles   map[string]string `json:"workdir_files"`
	VerifierStdout string            `json:"verifier_stdout"`
	VerifierStderr string            `json:"verifier_stderr"`
	TestExitCode   *int              `json:"test_exit_code"`
	InstallLogTail string            `json:"install_log_tail"`

	// Generation 2.
	// null: the agent never ran, or its exit code is not known
	AgentExitCode *int              `json:"agent_exit_code"`
	SetupResults  []CommandResult   `json:"setup_results"`
	VerifyResults []CommandResult   `json:"verify_results"`
	Files         map[string]string `json:"files"`
	FilesExtra    []string          `json:"files_extra"`

	// Further fields.
	ID      string `json:"rollout_id"`
	GroupID string `json:"group_id,omitempty"`

	// see Spec.Owner
	Owner string `json:"owner,omitempty"`

	// Agent, Model and Endpoint are those that the rollout was started with; an endpoint that has no name in the catalog
	// is its host and port.
	Agent    string    `json:"agent,omitempty"`
	Model    string    `json:"model,omitempty"`
	Endpoint string    `json:"endpoint,omitempty"`
	Outcome  Outcome   `json:"outcome"`
	Attempts []Attempt `json:"attempts"`

	// the agent's own session
	SessionID string `json:"serve_session_id,omitempty"`

	// in the order they began, all attempts; the last is open
	Phases  []PhaseTiming `json:"phases,omitempty"`
	Usage   Usage         `json:"usage"`
	Grading Grading       `json:"grading"`

	// Rewards are the rewards by name that the verifier wrote to reward.json, of which Reward is one, or that the client
	// gave with its score.
	Rewards map[string]float64 `json:"rewards,omitempty"`
	// TurnRewards are rewards of single turns, by turn and name, that the verifier or the client gave.
	TurnRewards []TurnReward `json:"turn_rewards,omitempty"`

	// Steps are the steps of the task that ran. Grading and the verifier's output are those of the last one.
	Steps []StepResult `json:"steps,omitempty"`

	// ResourceCauses are the bounds that the sandboxes of all attempts reached.
	ResourceCauses []ResourceCause `json:"resource_causes,omitempty"`
	// Services are those of the task, as they were when the agent of the last attempt had ended.
	Services []ServiceState `json:"services,omitempty"`

	// MalformedCalls counts the tool calls of the policy that could not be read, by the agent react.
	MalformedCalls int `json:"malformed_calls,omitempty"`
	// ModelHeldS is for how many seconds the gateway held model calls of the agent back, or no worker ran
	// an agent that runs in the worker. The agent's time was extended by it.
	ModelHeldS float64 `json:"model_held_s,omitempty"`

	// RolloutType reports whether the turns may be trained on, CaptureLevel what was captured of the agent's turns.
	RolloutType  RolloutType  `json:"rollout_type"`
	CaptureLevel CaptureLevel `json:"capture_level"`
	// Untrained says why no turn of the agent can be trained on; absent if one can, or if there is none.
	Untrained string `json:"untrained,omitempty"`

	// as pinned
	Sampling *Sampling `json:"sampling,omitempty"`

	// those of all turns and of the endpoint's probe; see Turn
	ParamFixes []string `json:"param_fixes,omitempty"`

	// LogprobsMode, ToolSupport and Findings are of the endpoint's probe; absent: not known.
	LogprobsMode LogprobsMode `json:"logprobs_mode,omitempty"`
	ToolSupport  *bool        `json:"tool_support,omitempty"`
	Findings     []string     `json:"findings,omitempty"`

	// sha256 of the trace
	Digest string `json:"digest"`

	// name → key in the store
	Links map[string]string `json:"links"`
}

// Head is the result without the parts that an agent can make large: its model calls and its files.
func (r Result) Head() Result {
	empty := NewResult(r.ID)
	r.ProxyTurns, r.WorkdirFiles, r.Files = empty.ProxyTurns, empty.WorkdirFiles, empty.Files

	return r
}

// Listed returns the rollout as a list has it.
func (r Result) Listed() Listed {
	l := Listed{
		ID:        r.ID,
		TaskID:    r.TaskID,
		GroupID:   r.GroupID,
		Owner:     r.Owner,
		Model:     r.Model,
		Agent:     r.Agent,
		Endpoint:  r.Endpoint,
		Phase:     PhaseDone,
		Usage:     &r.Usage,
		SandboxID: r.SandboxID,
		Outcome:   r.Outcome,
		Reward:    r.Reward,
	}

	var end time.Time

	if n := len(r.Attempts); n > 0 {
		last := r.Attempts[n-1]
		end, l.StartedAt = last.EndedAt, r.Attempts[0].StartedAt
		l.Attempt, l.Turns = &last.Number, &last.Turns
	}

	l.FinishedAt = &end

	return l
}

// NewResult is the result of a rollout about which nothing is known. No list or map is null, since clients
// of both generations iterate over them.
func NewResult(id string) Result {
	return Result{
		ID:            id,
		Grading:       Grading{Status: NotGraded},
		ExitCode:      -1,
		ProxyTurns:    []CompactTurn{},
		WorkdirFiles:  map[string]string{},
		SetupResults:  []CommandResult{},
		VerifyResults: []CommandResult{},
		Files:         map[string]string{},
		FilesExtra:    []string{},
		Attempts:      []Attempt{},
		Links:         map[string]string{},
	}
}

// Grading says how the reward came about, or why there is none.
type Grading struct {
	Status GradingStatus `json:"status"`
	Why    string        `json:"why,omitempty"`
	// Unseen are paths that the agent changed and the verifier did not see: it ran beside the image's own
	// files there. There are at most 50.
	Unseen []string `json:"unseen,omitempty"`
	// Mode is GradeLive if the agent's services went on while the verifier ran; absent: they were ended.
	Mode string `json:"mode,omitempty"`
	// Notes are for people: what may have kept right work from its reward.
	Notes []string `json:"notes,omitempty"`
	// Before is the grade that the rollout ended with, if a regrade has taken its place.
	Before *EarlierGrade `json:"before,omitempty"`
}

// GradingStatus is a closed set.
type GradingStatus string

const (
	// Graded: the verifier ran to its end and gave the reward. Why names commands that did not end in time, if any.
	Graded GradingStatus = "graded"
	// FailedBySubmission: the agent's work kept the verifier from giving a reward; the reward is 0.
	FailedBySubmission GradingStatus = "failed_by_submission"
	// NoUsableReward: the verifier itself is at fault; the outcome is verifier_failed and the reward null.
	NoUsableReward GradingStatus = "verifier_failed"
	// NotGraded: there is no verifier, or the outcome carries no reward.
	NotGraded GradingStatus = "not_graded"
)

// CommandResult is one setup or verify command.
type CommandResult struct {
	Cmd       string  `json:"cmd"`
	ExitCode  int     `json:"exit_code"`
	Stdout    string  `json:"stdout"`
	Stderr    string  `json:"stderr"`
	DurationS float64 `json:"duration_s"`
}

// Attempt is the record of one numbered attempt; earlier ones are kept.
type Attempt struct {
	Number int `json:"number"`

	// name of the step that it ran; "": the task has no steps
	Step      string  `json:"step,omitempty"`
	SandboxID string  `json:"sandbox_id"`
	Host      string  `json:"host,omitempty"`
	Outcome   Outcome `json:"outcome"`
	Error     string  `json:"error,omitempty"`
	ErrorKind string  `json:"error_kind,omitempty"`

	// how the agent ended, if the outcome is verifier_failed
	AgentOutcome Outcome `json:"agent_outcome,omitempty"`

	Turns     int       `json:"turns"`
	StartedAt time.Time `json:"started_at"`
	EndedAt   time.Time `json:"ended_at"`
}

// Usage sums what the model calls used.
type Usage struct {
	Turns        int   `json:"turns"`
	PromptTokens int64 `json:"prompt_tokens"`

	// those of PromptTokens that the endpoint says it had in its cache
	CachedPromptTokens int64 `json:"cached_prompt_tokens,omitempty"`
	CompletionTokens   int64 `json:"completion_tokens"`

	// where the model's price is known; failed tries included
	CostUSD float64 `json:"cost_usd,omitempty"`
}

// Add adds what other model calls used.
func (u *Usage) Add(other Usage) {
	u.Turns += other.Turns
	u.PromptTokens += other.PromptTokens
	u.CachedPromptTokens += other.CachedPromptTokens
	u.CompletionTokens += other.CompletionTokens
	u.CostUSD += other.CostUSD
}

// TurnKind says what a model call was for.
type TurnKind string

const (
	KindAgent    TurnKind = "agent"
	KindTitle    TurnKind = "title"
	KindSummary  TurnKind = "summary"
	KindSubagent TurnKind = "subagent"

	// not of the agent's own processes or session; counts for budgets, is never trained on
	KindForeign TurnKind = "foreign"
)

// Branch is the place of a model call in the tree of a rollout's conversations.
type Branch string

const (
	// the agent's own conversation, from its beginning
	BranchRoot Branch = "root"

	// the agent's own, restarted from a summary of the conversation before
	BranchCompacted Branch = "compacted"
	BranchSubagent  Branch = "subagent"

	// a title or a summary: a conversation of one call
	BranchAuxiliary Branch = "auxiliary"

	// a call that the agent's own session did not make
	BranchForeign Branch = "foreign"
)

// Turn is one model call, whole: a line of the trace.
type Turn struct {
	// from 1, in the order calls began
	Turn   int    `json:"turn"`
	CallID string `json:"call_id"`

	// the path below /v1 that the agent called
	API  string   `json:"api"`
	Kind TurnKind `json:"kind"`

	// the agent's session id; "parent/child" for a subagent
	Lineage   string `json:"lineage"`
	Branch    Branch `json:"branch"`
	Delivered bool   `json:"delivered"`

	// whether a trainer should learn from it; see sequence.Trains
	Train       bool         `json:"train"`
	PrefixBreak *PrefixBreak `json:"prefix_break,omitempty"`

	// why the reply is not whole; empty: it is whole
	Broken string `json:"broken,omitempty"`

	// what is wrong with the capture of a whole reply, or with the engine; see EngineFault
	Flaws              []string  `json:"flaws,omitempty"`
	FinishReason       string    `json:"finish_reason"`
	PromptTokenIDs     []int32   `json:"prompt_token_ids"`
	CompletionTokens   []string  `json:"completion_tokens"`
	CompletionTokenIDs []int32   `json:"completion_token_ids"`
	PerTokenLogps      []float64 `json:"per_token_logps"`
	Usage              Usage     `json:"usage"`

	// part of latency_s: the wait for permission to call the endpoint
	QueuedS    float64 `json:"queued_s"`
	LatencyS   float64 `json:"latency_s"`
	FirstByteS float64 `json:"first_byte_s"`

	// unix seconds at the start of the call
	Timestamp      float64 `json:"timestamp"`
	UpstreamStatus int     `json:"upstream_status"`

	// object or null
	UpstreamError json.RawMessage `json:"upstream_error"`
	UpstreamTries int             `json:"upstream_tries"`
	ModelVersion  string          `json:"model_version,omitempty"`

	// WeightVersions are the versions by spans of the completion's tokens, if the engine names several.
	WeightVersions []VersionSpan `json:"weight_versions,omitempty"`

	// base URL of the engine that was called last, where the endpoint has several
	Engine string `json:"engine,omitempty"`

	// as sent upstream
	Request json.RawMessage `json:"request"`

	// Rewritten has the members that the gateway changed in the agent's request:
	// {"max_tokens":{"from":32000,"to":4096}}. Without "from" the gateway added the member, without "to" it
	// removed the member.
	Rewritten json.RawMessage `json:"rewritten,omitempty"`

	// Constrained is the member of the request by which the engine chose tokens under a grammar, such as
	// "response_format".
	Constrained string `json:"constrained,omitempty"`
	// SamplingParams are the sampling parameters as sent; RequestedSamplingParams are those that the agent
	// asked for, where they differ.
	SamplingParams          json.RawMessage `json:"sampling_params,omitempty"`
	RequestedSamplingParams json.RawMessage `json:"requested_sampling_params,omitempty"`

	// ParamFixes are changes of the request that the endpoint needed, such as "dropped top_k".
	ParamFixes []string `json:"param_fixes,omitempty"`
	// Repaired says how the endpoint's reply differed from the API's form. Response is what the agent got instead.
	Repaired string `json:"repaired,omitempty"`
	// Fallback says why a conversation continued by messages and not by token ids: a word, a colon, and a sentence.
	Fallback string `json:"fallback,omitempty"`

	// Masked is the fault of the engine for which the turn is not trained on, a word; Flaws has the sentence.
	Masked string `json:"masked,omitempty"`

	// NodeID names the turn among all turns of all rollouts: 12 hex digits of the call id's SHA-256.
	NodeID string `json:"node_id,omitempty"`

	// Images counts the images of the prompt. The prompt's ids have only placeholders for them: who trains on the turn
	// needs the images of ImageRefs.
	Images int `json:"images,omitempty"`
	// ImageRefs are the images of the prompt, in order, at most MaxImages. Request has their digests in place of their
	// bytes.
	ImageRefs []ImageRef `json:"image_refs,omitempty"`

	// RoutedExperts describes the experts that the engine's router chose for the tokens; nil: they were not asked for.
	RoutedExperts *RoutedExperts `json:"routed_experts,omitempty"`
	// SamplingMask describes the tokens from which the sampler chose; nil: they were not asked for.
	SamplingMask *SamplingMask `json:"sampling_mask,omitempty"`

	// LossMask has a 0 for each prompt token and a 1 for each completion token that is trained on; empty
	// where there are no ids.
	LossMask Mask `json:"loss_mask,omitempty"`

	// the API's own object, such as a chat.completion, or null
	Response json.RawMessage `json:"response"`
}

// Mask is a list of zeros and ones. In JSON it is a list of numbers.
type Mask []byte

// MarshalJSON writes [0,0,1].
func (m Mask) MarshalJSON() ([]byte, error) {
	out := make([]byte, 0, 2*len(m)+2)
	out = append(out, '[')

	for i, bit := range m {
		if i > 0 {
			out = append(out, ',')
		}

		out = append(out, '0'+bit&1)
	}

	return append(out, ']'), nil
}

// UnmarshalJSON reads a list of zeros and ones, or null. It has an element for each token of a turn;
// encoding/json takes three times as long.
func (m *Mask) UnmarshalJSON(raw []byte) error {
	*m = make(Mask, 0, len(raw)/2)
	if string(raw) == "null" {
		return nil
	}

	list, isList := bytes.CutPrefix(raw, []byte("["))

	list, ends := bytes.CutSuffix(list, []byte("]"))
	for digit := false; len(list) > 0; list = list[1:] {
		switch c := list[0]; {
		case (c == '0' || c == '1') && !digit:
			*m, digit = append(*m, c-'0'), true
		case c == ',':
			digit = false
		case c != ' ' && c != '\n' && c != '\r' && c != '\t':
			isList = false
		}
	}

	if !isList || !ends {
		return fault.New(fault.Invalid, "a mask must be a list of zeros and ones")
	}

	return nil
}

// NewMask makes the mask of a turn.
func NewMask(prompt, completion int, train bool) Mask {
	m := make(Mask, prompt+completion)
	for i := prompt; train && i < len(m); i++ {
		m[i] = 1
	}

	return m
}

// PrefixBreak says that a turn's prompt does not begin, token for token, with the prompt and completion of
// the previous delivered turn of its lineage: the conversation was summarized or changed, or the chat
// template renders earlier replies differently from how they were sampled. Turns on the two sides of a
// break do not form one training sequence.
type PrefixBreak struct {
	// that previous turn
	AfterTurn int `json:"after_turn"`

	// index of the first of the prompt's ids that differs
	At int `json:"at"`
}

// FinishReason is null in JSON where there is none.
type FinishReason string

// MarshalJSON writes null for the empty one.
func (f FinishReason) MarshalJSON() ([]byte, error) {
	if f == "" {
		return []byte("null"), nil
	}

	return json.Marshal(string(f))
}

// CompactTurn is a Turn as Result has it: without tools and without the whole reply.
type CompactTurn struct {
	Turn               int             `json:"turn"`
	Kind               TurnKind        `json:"kind"`
	Lineage            string          `json:"lineage"`
	Branch             Branch          `json:"branch"`
	Delivered          bool            `json:"delivered"`
	Train              bool            `json:"train"`
	PrefixBreak        *PrefixBreak    `json:"prefix_break,omitempty"`
	Broken             string          `json:"broken,omitempty"`
	Flaws              []string        `json:"flaws,omitempty"`
	FinishReason       FinishReason    `json:"finish_reason"`
	PromptTokenIDs     []int32         `json:"prompt_token_ids"`
	CompletionTokens   []string        `json:"completion_tokens"`
	CompletionTokenIDs []int32         `json:"completion_token_ids"`
	PerTokenLogps      []float64       `json:"per_token_logps"`
	LatencyS           float64         `json:"latency_s"`
	Timestamp          float64         `json:"timestamp"`
	UpstreamStatus     int             `json:"upstream_status"`
	UpstreamError      json.RawMessage `json:"upstream_error"`
	ModelVersion       string          `json:"model_version,omitempty"`
	Engine             string          `json:"engine,omitempty"`

	// as in Turn
	SamplingParams json.RawMessage `json:"sampling_params,omitempty"`

	// as in Turn
	Images   int            `json:"images,omitempty"`
	Request  map[string]any `json:"request"`
	Response map[string]any `json:"response"`
}

// Transcript is the agent's own record of the session.
type Transcript struct {
	SessionID string `json:"serve_session_id"`

	// {info, parts}, as OpenCode gives them
	Messages []json.RawMessage `json:"messages"`
}

// Price is what a model costs, in US dollars for a million tokens.
type Price struct {
	Prompt     float64 `json:"prompt" yaml:"prompt" jsonschema:"US dollars per million prompt tokens"`
	Completion float64 `json:"completion" yaml:"completion" jsonschema:"US dollars per million completion tokens"`
	// CachedPrompt is for prompt tokens that the endpoint had in its cache; nil: they cost what the others do.
	CachedPrompt *float64 `json:"cached_prompt,omitempty" yaml:"cached_prompt" jsonschema:"US dollars per million prompt tokens read from the endpoint's cache. Default: the price of prompt"`
}

// Of is the cost of the usage, in US dollars. Prompt tokens written to a cache cost the same as others,
// although some endpoints charge more.
func (p *Price) Of(u Usage) float64 {
	if p == nil {
		return 0
	}

	cached, saved := min(u.CachedPromptTokens, u.PromptTokens), 0.0
	if p.CachedPrompt != nil {
		saved = (p.Prompt - *p.CachedPrompt) * float64(cached)
	}

	return (p.Prompt*float64(u.PromptTokens) + p.Completion*float64(u.CompletionTokens) - saved) / 1e6
}

// Valid reports whether every part is 0 or more.
func (p *Price) Valid() bool {
	return p.Prompt >= 0 && p.Completion >= 0 && (p.CachedPrompt == nil || *p.CachedPrompt >= 0)
}
