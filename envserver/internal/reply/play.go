package reply

import (
	"encoding/json"

	"github.com/rolloutd/rolloutd/internal/episode"
)

// EpisodeStart is the observation of the reset of an interactive episode.
type EpisodeStart struct {
	EpisodeID   string `json:"episode_id"`
	RolloutID   string `json:"rollout_id"`
	TaskID      string `json:"task_id"`
	Instruction string `json:"instruction"`
}

// PlayObservation is the observation of a tool call in an interactive episode.
type PlayObservation struct {
	Metadata noMetadata  `json:"metadata" nullable:"false" description:"empty"`
	ToolName string      `json:"tool_name" required:"true" description:"name of the tool"`
	Result   *ToolResult `json:"result" description:"what the tool returned; null when it was not run"`
	Error    *toolError  `json:"error" description:"why the tool was not run; null when it was"`
}

// ToolResult is the result of a tool of an interactive episode. Some clients read the text of content, others data.
type ToolResult struct {
	Content    []textBlock     `json:"content" nullable:"false"`
	Structured json.RawMessage `json:"structured_content" description:"facts such as exit_code"`
	Meta       any             `json:"meta"`
	Data       string          `json:"data" description:"the text of content"`
	IsError    bool            `json:"is_error" description:"whether the call ran and failed, such as a command with an exit code other than 0"`
	// IsErrorMCP is the same under its name in MCP.
	IsErrorMCP bool `json:"isError"`
}

// ToolResultOf converts a tool's result to its form in an observation.
func ToolResultOf(r episode.Result) *ToolResult {
	text := r.Text()

	out := &ToolResult{
		Content:    []textBlock{{Type: "text", Text: text}},
		Data:       text,
		IsError:    r.Error,
		IsErrorMCP: r.Error,
	}
	if len(r.Data) > 0 {
		out.Structured = r.Data
	}

	return out
}

// PlayModel is PlayObservation in the reference's model; see ObservationModel.
type PlayModel struct {
	Done   bool     `json:"done" default:"false" description:"true if the episode has ended"`
	Reward *float64 `json:"reward" description:"reward of the step"`
	PlayObservation

	_ struct{} `title:"CallToolObservation" additionalProperties:"false"`
}
