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
	AgentOutput    = "output.log"      // end of the stdout and stderr of the agent's processes
	OpencodeOutput = "opencode.log"    // end of OpenCode's output
	Home           = "home.tar"        // the agent's home directory
	Steps          = "steps.jsonl"     // JSON lines of episode.Step
	Setup          = "setup.json"      // []rollout.CommandResult
	Packages       = "packages.tar"    // rollout.Packages after setup; empty: none; missing: no setup
	Grading        = "verify.json"     // grading.Record
	VerifierStdout = "verifier.stdout"
	VerifierStderr = "verifier.stderr"
	Resources      = "resources.json" // []rollout.ResourceCause; missing: no limit was reached
	Endpoint       = "endpoint.json"  // rollout.EndpointReport, if the endpoint was probed
	Network        = "network.jsonl"  // connections to outside hosts, one a line; missing: none
)

// ResultKey returns the key of a finished rollout's rollout.Result.
func ResultKey(rolloutID string) string { return path.Join("rollouts", rolloutID, "result.json") }

// HeadKey returns the key of a finished rollout's Result.Head, for readers that do not need the whole result. Rollouts of earlier
// versions have none.
func HeadKey(rolloutID string) string { return path.Join("rollouts", rolloutID, "head.json") }

// GroupKey returns the key of a finished group's rollout.GroupState.
func GroupKey(groupID string) string { return path.Join("groups", groupID, "state.json") }

// ProducerKey returns the key of a finished producer's producer.State.
func ProducerKey(producerID string) string { return path.Join("producers", producerID, "state.json") }

// AttemptKey returns the key of an attempt's blob.
func AttemptKey(rolloutID string, attempt int, name string) string {
	return path.Join("rollouts", rolloutID, "attempts", strconv.Itoa(attempt), name)
}
