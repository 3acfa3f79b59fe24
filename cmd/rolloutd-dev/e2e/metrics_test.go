package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/rollout"
)

var (
	metricHelp  = regexp.MustCompile(`(?m)^# HELP (rolloutd_\S+) (.+)\n# TYPE \S+ (\S+)$`)
	metricLabel = regexp.MustCompile(`([a-z_]+)="`)
)

// The reference of the metrics is made of what a server exports after a group of rollouts was delivered and a rollout
// was lost.
func TestReferenceOfMetrics(t *testing.T) {
	t.Parallel()

	config := configFile(t, fmt.Sprintf("sinks:\n  disk: {kind: files, path: %s}\n", t.TempDir()))
	srv := startDev(t, devOptions{flags: []string{"--config", config}, env: []string{"ROLLOUTD_SANDBOX_WARM=1"}})

	priced := exampleArgs(t, "binary_search")
	priced["price"] = args{"prompt": 1, "completion": 1}

	result := runRollout(t, srv.url, priced)
	require.NotNil(t, result.Reward)

	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"error":{"message":"no such key"}}`, http.StatusUnauthorized)
	}))
	defer refusing.Close()

	refused := runRollout(t, srv.url, args{
		"instruction": "say hello", "agent": rollout.AgentReact, "verify": []string{"true"},
		"base_url": refusing.URL + "/v1", "model": "m", "api_key": "k",
	})
	require.Equal(t, rollout.InfraFailed, refused.Outcome)

	deliverAGroup(t, srv.url, "disk")

	page := `# Metrics

This page is generated from the code. Each role serves its metrics for Prometheus where ` + "`telemetry.listen`" + ` is set.
Beside these there are those of the Go runtime (` + "`go_`" + `, ` + "`process_`" + `) and of Temporal's SDK (` + "`temporal_`" + `).

A label has few values. ` + "`endpoint`" + ` is the name of a configured endpoint, ` + "`other`" + ` for an address that a client gave, ` + "`none`" + ` without a
model. ` + "`task_set`" + ` is a configured task set whose tasks a producer runs, else empty. Workers count rollouts when they end;
[operations.md](../operations.md) has alerts and a dashboard.

| Metric | Kind | Labels | Meaning |
|---|---|---|---|
`

	scraped := get(t, srv.metrics)

	var rows []string

	for _, found := range metricHelp.FindAllStringSubmatch(scraped, -1) {
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |\n",
			found[1], found[3], labelsOf(scraped, found[1]), strings.ReplaceAll(found[2], "|", `\|`)))
	}

	slices.Sort(rows)
	page += strings.Join(rows, "")

	file := filepath.Join("..", "..", "..", "docs", "reference", "metrics.md")
	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(file, []byte(page), 0o644))
	}

	written, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(written), page, "UPDATE=1 go test ./e2e -run TestReferenceOfMetrics writes the page")
}

// labelsOf returns the names of a metric's labels.
func labelsOf(scraped, metric string) string {
	sample := regexp.MustCompile(`(?m)^` + metric + `(?:_bucket)?\{(.+)\} \S+$`).FindStringSubmatch(scraped)
	if sample == nil {
		return ""
	}

	var names []string

	for _, label := range metricLabel.FindAllStringSubmatch(sample[1], -1) {
		if label[1] != "le" {
			names = append(names, "`"+label[1]+"`")
		}
	}

	return strings.Join(names, ", ")
}

// deliverAGroup runs a group of one rollout and waits until a sink has it.
func deliverAGroup(t *testing.T, url, sink string) {
	t.Helper()

	postGroup(t, url, args{
		"instruction": "say hello", "agent": rollout.AgentReact, "endpoint": "scripted", "task_id": "hello", "group_id": "g", "group_size": 1,
		"verify": []string{"true"},
	})
	require.Equal(t, rollout.GroupComplete, waitGroup(t, url, "g").Outcome)
	deliverGroup(t, url, "g", sink)
}
