package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var metricHelp = regexp.MustCompile(`(?m)^# HELP (rolloutd_\S+) (.+)\n# TYPE \S+ (\S+)$`)

// The reference of the metrics is made of what a server exports after a rollout of a command-line agent.
func TestReferenceOfMetrics(t *testing.T) {
	t.Parallel()

	srv := startDev(t, devOptions{})

	result := runRollout(t, srv.url, exampleArgs(t, "binary_search"))
	require.NotNil(t, result.Reward)

	page := `# Metrics

This page is generated from the code. Each role serves its metrics for Prometheus where ` + "`telemetry.listen`" + ` is set.
Beside these there are those of the Go runtime (` + "`go_`" + `, ` + "`process_`" + `) and of Temporal's SDK (` + "`temporal_`" + `).

| Metric | Kind | Meaning |
|---|---|---|
`

	var rows []string
	for _, found := range metricHelp.FindAllStringSubmatch(get(t, srv.metrics), -1) {
		rows = append(
			rows,
			fmt.Sprintf("| `%s` | %s | %s |\n", found[1], found[3], strings.ReplaceAll(found[2], "|", `\|`)),
		)
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
