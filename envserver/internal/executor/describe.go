package executor

import (
	"net/http"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
)

// The types below describe the bodies of the routes.

type describedTool struct {
	Name      string         `json:"name" required:"true" description:"of the tool"`
	Arguments map[string]any `json:"arguments" nullable:"false" description:"its arguments"`
	UniqID    any            `json:"uniq_id" required:"true" description:"text or number; repeated in its trajectory, the call returns the first answer"`
}

type describedCall struct {
	TrajectoryID string        `json:"trajectory_id" required:"true" description:"names an episode, which the first call opens, or a rollout that takes calls"`
	Tool         describedTool `json:"tool" required:"true"`
	TimeoutS     *float64      `json:"timeout_s" description:"of a command, 1 to 600 s"`
}

type describedBatch struct {
	Calls []describedCall `json:"calls" required:"true" nullable:"false" description:"at most 1024, made concurrently"`
}

type describedAnswer struct {
	Success  bool           `json:"success" required:"true"`
	Output   string         `json:"output" required:"true"`
	Error    string         `json:"error" required:"true" description:"why the call failed"`
	Metadata map[string]any `json:"metadata" required:"true" nullable:"false" description:"facts such as exit_code; fault: the kind of a failure that is not the tool's, such as SandboxLost"`
	UniqID   any            `json:"uniq_id" required:"true"`
}

type describedAnswers struct {
	Results []describedAnswer `json:"results" required:"true" nullable:"false" description:"in the order of the calls"`
}

type describedRelease struct {
	TrajectoryID string `json:"trajectory_id" required:"true"`
}

type describedBanner struct {
	Message string `json:"message" required:"true"`
}

type describedOK struct {
	Status string `json:"status" required:"true" description:"ok"`
}

type describedStatus struct {
	QueueSize     int `json:"queue_size" required:"true" description:"0: no call waits for another"`
	TotalRequests int `json:"total_requests" required:"true"`
	TotalErrors   int `json:"total_errors" required:"true"`
	Trajectories  int `json:"trajectories" required:"true" description:"known to this process"`

	Pool describedPool `json:"pool" required:"true"`
}

// describedPool has the members of AgentEnv's pool. A sandbox is made for each trajectory, so that none is
// available beforehand.
type describedPool struct {
	Total      int            `json:"total_slots" required:"true" description:"trajectories known to this process"`
	Available  int            `json:"available_slots" required:"true" description:"0: each trajectory gets a sandbox of its own"`
	Acquired   int            `json:"acquired_slots" required:"true"`
	Containers int            `json:"containers" required:"true" description:"0: there are none"`
	States     map[string]int `json:"slots_by_state" required:"true" nullable:"false"`
	Started    bool           `json:"started" required:"true"`
}

type describedArtifact struct {
	TrajectoryID  string `json:"trajectory_id" required:"true"`
	Path          string `json:"path" description:"below the workdir; default: the workdir"`
	Encoding      string `json:"encoding" description:"of read: text (default) or base64"`
	MaxBytes      *int   `json:"max_bytes" description:"of read and archive"`
	IncludeSHA256 bool   `json:"include_sha256" description:"of read"`
	Recursive     bool   `json:"recursive" description:"of list"`
	MaxEntries    *int   `json:"max_entries" description:"of list and archive"`
	Format        string `json:"format" description:"of archive: tar.gz"`
}

// describe is the operation of a route; reads nil: it has no body.
func describe(id, summary string, reads, answers any) *api.Operation {
	o := &api.Operation{ID: "executor_" + id, Tag: "Tool Executor", Summary: summary, Answers: answers}
	if reads != nil {
		o.Reads, o.NeedsBody = reads, true
		o.Refuses = api.BodyErrors(
			api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound, http.StatusConflict)...)
	}

	return o
}
