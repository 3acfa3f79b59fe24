package dialect

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Beginnings of OpenCode's auxiliary calls. Such calls offer no tools.
const (
	titlePrompt   = "You are a title generator."
	summaryPrompt = "You are a context summarization agent."
)

// maxLineage bounds the agent's text in each record.
const maxLineage = 256

// classify returns the purpose of a call and its session: the agent's session id, or "parent/child" for a subagent.
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
