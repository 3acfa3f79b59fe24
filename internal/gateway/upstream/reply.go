package upstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// generateAnswer has the members of a reply of /generate that are used.
type generateAnswer struct {
	Text      *string `json:"text"`
	OutputIDs []int32 `json:"output_ids"`
	Meta      struct {
		ID            string         `json:"id"`
		Finish        generateFinish `json:"finish_reason"`
		Prompt        int64          `json:"prompt_tokens"`
		Completion    int64          `json:"completion_tokens"`
		Cached        int64          `json:"cached_tokens"`
		WeightVersion string         `json:"weight_version"`

		// by spans of tokens
		Versions json.RawMessage `json:"weight_versions"`

		Experts json.RawMessage `json:"routed_experts"`

		mask

		// [logprob, id, text]
		Logprobs [][]json.RawMessage   `json:"output_token_logprobs"`
		Top      [][][]json.RawMessage `json:"output_top_logprobs"`
	} `json:"meta_info"`
}

// mask is a sampling mask.
type mask struct {
	MaskRows     json.RawMessage `json:"output_token_sampling_mask,omitempty"`
	MaskLogprobs json.RawMessage `json:"output_token_sampling_logprobs,omitempty"`
}

// generateFinish is {"type": "stop", "matched": …}, or null.
type generateFinish struct {
	Type string `json:"type"`
}

// generateLimits bound a reply: at most 4 Mi tokens with the four values of each, and as much for their alternatives.
func generateLimits() jsoninput.Limits { return jsoninput.Limits{Elements: 32 << 20, Depth: 16} }

type completion struct {
	ID            string   `json:"id,omitempty"`
	Object        string   `json:"object"`
	Choices       []choice `json:"choices"`
	Usage         usage    `json:"usage"`
	WeightVersion string   `json:"weight_version,omitempty"`
	Metadata      metadata `json:"metadata,omitzero"`
}

type metadata struct {
	Versions json.RawMessage `json:"weight_versions,omitempty"`
}

type choice struct {
	Index    int             `json:"index"`
	Text     string          `json:"text"`
	Finish   string          `json:"finish_reason"`
	Logprobs *columns        `json:"logprobs"`
	Prompt   json.RawMessage `json:"prompt_token_ids,omitempty"`
	IDs      []int32         `json:"token_ids,omitempty"`
	Experts  json.RawMessage `json:"routed_experts,omitempty"`
	Meta     mask            `json:"meta_info,omitzero"`
}

type columns struct {
	Tokens   []string                     `json:"tokens"`
	Logprobs []json.RawMessage            `json:"token_logprobs"`
	Top      []map[string]json.RawMessage `json:"top_logprobs,omitempty"`
}

type usage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Total      int64 `json:"total_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// completionOfGenerate returns a reply of /generate as one of completions, with the ids of prompt and
// reply. It omits the prompt's ids if the engine counted another number, as an engine does that cuts long
// prompts, and the sampled ids if its two lists of them differ.
func completionOfGenerate(sent, raw []byte) ([]byte, error) {
	var in generateAnswer
	if err := json.NewDecoder(jsoninput.NewReader(bytes.NewReader(rawjson.Finite(raw)), generateLimits())).
		Decode(&in); err != nil {
		return nil, fmt.Errorf("reply of %s: %w", generatePath, err)
	}

	if in.Text == nil {
		return nil, fmt.Errorf("reply of %s: no text", generatePath)
	}

	one := choice{
		Text: *in.Text, Finish: in.Meta.Finish.Type, IDs: in.OutputIDs, Experts: in.Meta.Experts, Meta: in.Meta.mask,
	}
	if in.Meta.Logprobs != nil {
		ids, table, err := in.columns()
		if err != nil {
			return nil, err
		}

		one.Logprobs = &table

		switch {
		case len(in.OutputIDs) == 0:
			one.IDs = ids
		case !slices.Equal(ids, in.OutputIDs):
			one.IDs, one.Logprobs = nil, nil
		}
	}

	if prompt := rawjson.MemberOf(sent, "prompt"); count(prompt) == in.Meta.Prompt {
		one.Prompt = prompt
	}

	out := completion{
		ID:            in.Meta.ID,
		Object:        "text_completion",
		Choices:       []choice{one},
		WeightVersion: in.Meta.WeightVersion,
		Metadata:      metadata{in.Meta.Versions},
	}
	out.Usage = usage{
		Prompt:     in.Meta.Prompt,
		Completion: in.Meta.Completion,
		Total:      in.Meta.Prompt + in.Meta.Completion,
	}
	out.Usage.Details.Cached = in.Meta.Cached

	return json.Marshal(out)
}

// columns splits the list of tokens into the ids and the columns of completions.
func (g *generateAnswer) columns() ([]int32, columns, error) {
	ids, out := []int32{}, columns{Tokens: []string{}, Logprobs: []json.RawMessage{}}
	for _, t := range g.Meta.Logprobs {
		id, err := idOf(t)
		if err != nil {
			return nil, out, err
		}

		ids, out.Tokens, out.Logprobs = append(ids, id), append(out.Tokens, nameOf(id)), append(out.Logprobs, t[0])
	}

	for _, candidates := range g.Meta.Top {
		top := map[string]json.RawMessage{}

		for _, t := range candidates {
			id, err := idOf(t)
			if err != nil {
				return nil, out, err
			}

			top[nameOf(id)] = t[0]
		}

		out.Top = append(out.Top, top)
	}

	return ids, out, nil
}

func idOf(token []json.RawMessage) (id int32, err error) {
	if len(token) < 2 || json.Unmarshal(token[1], &id) != nil || id < 0 {
		return 0, fmt.Errorf("reply of %s: a token is not [logprob, id, text]", generatePath)
	}

	return id, nil
}

func nameOf(id int32) string { return fmt.Sprintf("token_id:%d", id) }

// count returns the number of ids in a list.
func count(ids []byte) int64 {
	if !isIDs(ids) {
		return 0
	}

	return int64(bytes.Count(ids, []byte(","))) + 1
}
