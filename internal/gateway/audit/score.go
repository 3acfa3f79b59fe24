package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Paths of the requests, below the engine's root.
const (
	// GeneratePath is SGLang's.
	GeneratePath = "/generate"
	// CompletionsPath is vLLM's.
	CompletionsPath = "/v1/completions"
)

// Turn has the tokens of a turn.
type Turn struct {
	Model              string
	Prompt, Completion []int32
}

func (t Turn) ids() []int32 { return slices.Concat(t.Prompt, t.Completion) }

// scoreLimits bound a reply: a token has at most eight values, and a turn 4 Mi tokens.
func scoreLimits() jsoninput.Limits { return jsoninput.Limits{Elements: 32 << 20, Depth: 16} }

// Generate returns SGLang's request to score the completion's tokens. salt must be new, or the engine may use a cache.
func (t Turn) Generate(salt string) []byte {
	// An adapter follows the model's name after a colon.
	_, adapter, _ := strings.Cut(t.Model, ":")
	request := map[string]any{
		"input_ids":         t.ids(),
		"sampling_params":   map[string]any{"max_new_tokens": 1, "temperature": 1},
		"return_logprob":    true,
		"logprob_start_len": len(t.Prompt) - 1,
		"extra_key":         salt,
	}

	if adapter != "" {
		request["lora_path"] = strings.TrimSpace(adapter)
	}
	// numbers and strings always encode
	body, _ := json.Marshal(request)

	return body
}

// ReadGenerate returns the log probabilities of the completion's tokens, and the version of the weights; "": not named.
func (t Turn) ReadGenerate(raw []byte) ([]float64, string, error) {
	var in struct {
		Meta struct {
			Version string `json:"weight_version"`
			// [logprob, id, text]
			Input [][]json.RawMessage `json:"input_token_logprobs"`
		} `json:"meta_info"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, "", err
	}

	first := len(in.Meta.Input) - len(t.Completion)
	if first < 0 {
		return nil, "", errors.New("the endpoint scores too few tokens")
	}

	var logprobs []float64

	for i, token := range in.Meta.Input[first:] {
		var (
			id      int32
			logprob *float64
		)

		if len(token) < 2 || json.Unmarshal(token[0], &logprob) != nil || json.Unmarshal(token[1], &id) != nil ||
			!possible(logprob) || id != t.Completion[i] {
			return nil, "", errors.New("the endpoint scores other tokens")
		}

		logprobs = append(logprobs, *logprob)
	}

	return logprobs, in.Meta.Version, nil
}

// Completions returns vLLM's request to score all tokens. salt must be new, or the engine may use a cache.
func (t Turn) Completions(salt string) []byte {
	// numbers and strings always encode
	body, _ := json.Marshal(map[string]any{
		"model": t.Model, "prompt": t.ids(), "max_tokens": 1, "temperature": 1, "prompt_logprobs": 0, "cache_salt": salt,
	})

	return body
}

// ReadCompletions returns the log probabilities of the completion's tokens, and the version of the weights; "": not
// named.
func (t Turn) ReadCompletions(raw []byte) ([]float64, string, error) {
	type scored struct {
		Logprob *float64 `json:"logprob"`
	}

	var in struct {
		Version string `json:"weight_version"`
		Choices []struct {
			// by id; null for the first token
			Prompt []map[string]scored `json:"prompt_logprobs"`
		} `json:"choices"`
	}
	if err := decode(raw, &in); err != nil {
		return nil, "", err
	}

	if len(in.Choices) == 0 || len(in.Choices[0].Prompt) != len(t.Prompt)+len(t.Completion) {
		return nil, "", errors.New("the endpoint does not score prompts")
	}

	var logprobs []float64

	for i, token := range in.Choices[0].Prompt[len(t.Prompt):] {
		logprob := token[strconv.Itoa(int(t.Completion[i]))].Logprob
		if !possible(logprob) {
			return nil, "", errors.New("the endpoint scores other tokens")
		}

		logprobs = append(logprobs, *logprob)
	}

	return logprobs, in.Version, nil
}

// possible reports whether an engine has computed a log probability: vLLM writes -9999 for the least.
func possible(logprob *float64) bool {
	const least, rounding = -1e4, 1e-3

	return logprob != nil && *logprob >= least && *logprob <= rounding
}

func decode(raw []byte, into any) error {
	in := jsoninput.NewReader(bytes.NewReader(rawjson.Finite(raw)), scoreLimits())
	if err := json.NewDecoder(in).Decode(into); err != nil {
		return fmt.Errorf("scores of the endpoint: %w", err)
	}

	return nil
}
