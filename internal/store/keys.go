package store

import (
	"path"
	"strconv"
)

// Names of an attempt's blobs.
const (
	Trace          = "trace.jsonl"     // JSON lines of rollout.Turn
	Transcript     = "transcript.json" // rollout.Transcript
	AgentEvents    = "agent.jsonl"     // the agent's events, one a line
	Events         = "events.jsonl"    // JSON lines of rollout.Event
	AgentOutput    = "output.log"      // the tail of what the agent's processes wrote to stdout and stderr
	OpencodeOutput = "opencode.log"    // the same of OpenCode
	Home           = "home.tar"        // the home directory as the agent left it
	Steps          = "steps.jsonl"     // JSON lines of episode.Step
	Setup          = "setup.json"      // []rollout.CommandResult
	Packages       = "packages.tar"    // rollout.Packages as setup left them; empty where there was nothing, none without a setup
	Grading        = "verify.json"     // grading.Record
	VerifierStdout = "verifier.stdout"
	VerifierStderr = "verifier.stderr"
	Resources      = "resources.json" // []rollout.ResourceCause; none where no bound was reached
	Endpoint       = "endpoint.json"  // rollout.EndpointReport, where the endpoint was probed
	Network        = "network.jsonl"  // connections to hosts outside, one a line; none without them
)

// ResultKey is where the rollout.Result of a finished rollout lies.
func ResultKey(rolloutID string) string { return path.Join("rollouts", rolloutID, "result.json") }

// HeadKey is where Result.Head of a finished rollout lies, for readers that do not need the whole. Rollouts that ended under an earlier version
// have none.
func HeadKey(rolloutID string) string { return path.Join("rollouts", rolloutID, "head.json") }

// GroupKey is where the rollout.GroupState of a finished group lies.
func GroupKey(groupID string) string { return path.Join("groups", groupID, "state.json") }

// ProducerKey is where the rollout.ProducerState of a finished producer lies.
func ProducerKey(producerID string) string { return path.Join("producers", producerID, "state.json") }

// AttemptKey is where one of the blobs of an attempt lies.
func AttemptKey(rolloutID string, attempt int, name string) string {
	return path.Join("rollouts", rolloutID, "attempts", strconv.Itoa(attempt), name)
}
