package dialect

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// How OpenCode's auxiliary calls begin; they offer no tools.
const (
	titlePrompt   = "You are a title generator."
	summaryPrompt = "You are a context summarization agent."
)

// maxLineage bounds what an agent can have written into each record.
const maxLineage = 256

// classify tells what a call is for, and whose it is: the agent's session id, or "parent/child" for a subagent.
func classify(h http.Header, first opening) (rollout.TurnKind, string) {
	session, parent := h.Get(sessionHeader), h.Get(parentHeader)
	lineage := session
	if parent != "" {
		lineage = parent + "/" + session
	}
	if len(lineage) > maxLineage {
		lineage = lineage[:maxLineage]
	}
	lineage = strings.ToValidUTF8(lineage, "?")
	switch {
	case !first.Tools && bytes.HasPrefix(first.System, []byte(titlePrompt)):
		return rollout.KindTitle, lineage
	case !first.Tools && bytes.HasPrefix(first.System, []byte(summaryPrompt)):
		return rollout.KindSummary, lineage
	case parent != "":
		return rollout.KindSubagent, lineage
	default:
		return rollout.KindAgent, lineage
	}
}
