package store

import (
	"path"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Names of an attempt's blobs.
const (
	// JSON lines of rollout.Turn
	Trace = "trace.jsonl"

	// RoutedExperts are the rows of routed experts of the trace's turns; see rollout.RoutedExperts.
	RoutedExperts = "routed_experts.bin"

	// Images are the images of the prompts of the trace's turns; see rollout.ImageRef.
	Images = "images.bin"

	// what people read of a long trace, in blocks
	TraceIndex = "trace.index"

	// rollout.Transcript
	Transcript = "transcript.json"

	// the agent's events, one a line
	AgentEvents = "agent.jsonl"

	// JSON lines of rollout.Event
	Events = "events.jsonl"

	// end of the stdout and stderr of the agent's processes
	AgentOutput = "output.log"

	// end of OpenCode's output
	OpencodeOutput = "opencode.log"

	// the agent's home directory
	Home = "home.tar"

	// []wire.Change: what the agent changed in its image besides; missing: nobody looked
	Changes = "changes.json"
	// Artifacts are []grading.artifact; artifact n is a tar at Artifact+n.
	Artifacts = "artifacts.json"
	Artifact  = "artifact-"

	// Collected are the results of the commands that made artifacts, []rollout.CommandResult.
	Collected = "collected.json"
	// Listeners are the ports with which the agent's processes listened when grading ended them.
	Listeners = "listeners.json"

	// JSON lines of episode.Step
	Steps = "steps.jsonl"

	// []rollout.CommandResult
	Setup = "setup.json"

	// []rollout.ServiceState when the agent had ended; missing: no services
	Services = "services.json"

	// rollout.Packages after setup; empty: none; missing: no setup
	Packages = "packages.tar"

	// grading.Record
	Grading        = "verify.json"
	VerifierStdout = "verifier.stdout"
	VerifierStderr = "verifier.stderr"

	// []rollout.ResourceCause; missing: no limit was reached
	Resources = "resources.json"

	// rollout.EndpointReport, if the endpoint was probed
	Endpoint = "endpoint.json"

	// connections to outside hosts, one a line; missing: none
	Network = "network.jsonl"
)

// ResultKey returns the key of a finished rollout's rollout.Result.
func ResultKey(rolloutID string) string { return path.Join("rollouts", rolloutID, "result.json") }

// HeadKey returns the key of a finished rollout's Result.Head, for readers that do not need the whole
// result. Rollouts of earlier versions have none.
func HeadKey(rolloutID string) string { return path.Join("rollouts", rolloutID, "head.json") }

// RegradeKey returns the key of a finished rollout.Regrade of a rollout; regradeID "" is the folder of all.
func RegradeKey(rolloutID, regradeID string) string {
	if regradeID == "" {
		return path.Join("rollouts", rolloutID, "regrades") + "/"
	}

	return path.Join("rollouts", rolloutID, "regrades", regradeID+".json")
}

// AppliedKey returns the key of a rollout.Regrade that is to be the grade of a rollout; regradeID "" is the folder of all.
func AppliedKey(rolloutID, regradeID string) string {
	if regradeID == "" {
		return path.Join("rollouts", rolloutID, "applied") + "/"
	}

	return path.Join("rollouts", rolloutID, "applied", regradeID+".json")
}

// GradeKey returns the key of a blob that grading the target leaves. A regrade has keys of its own.
func GradeKey(t rollout.Target, name string) string {
	if t.Regrade != "" {
		name = path.Join("regrades", t.Regrade, name)
	}

	return AttemptKey(t.RolloutID, t.Attempt, name)
}

// GroupKey returns the key of a finished group's rollout.GroupState.
func GroupKey(groupID string) string { return path.Join("groups", groupID, "state.json") }

// ProducerKey returns the key of a finished producer's producer.State.
func ProducerKey(producerID string) string { return path.Join("producers", producerID, "state.json") }

// KeptKey returns the key of the mark by which an operator keeps a rollout, or the rollouts of a group, from being
// deleted.
func KeptKey(id string) string { return path.Join("kept", id+".json") }

// AttemptKey returns the key of an attempt's blob.
func AttemptKey(rolloutID string, attempt int, name string) string {
	return path.Join("rollouts", rolloutID, "attempts", strconv.Itoa(attempt), name)
}

// Folders of records that are listed.
const (
	hostFolder    = "hosts/"
	sessionFolder = "sessions/"
)

// hostKey returns the key of a HostRecord.
func hostKey(id string) string { return hostFolder + id + ".json" }

// drainKey returns the key of the drainMark of a host.
func drainKey(host string) string { return path.Join("drained", host+".json") }

// sessionKey returns the key of a record of Sessions.
func sessionKey(key string) string { return path.Join(sessionFolder, key+".json") }

// NoteKey returns the key of a note of a sink. The deliveries themselves are beside it, by delivery.Outbox.
func NoteKey(sink, name string) string { return path.Join("deliveries", "notes", sink, name+".json") }
