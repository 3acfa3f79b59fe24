package arch_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The alert rules and dashboards use metrics that exist, and each alert has a section for operators.
func TestAlertsAndDashboards(t *testing.T) {
	t.Parallel()

	metrics := metricsOfReference(t)

	var used int

	for _, pattern := range []string{"prometheus/*.yaml", "grafana/*.json"} {
		for _, file := range files(t, "deploy/"+pattern) {
			for _, m := range regexp.MustCompile(`rolloutd_[a-z_]+`).FindAllString(read(t, file), -1) {
				require.Contains(t, metrics, histogramOf(m, metrics), "%s names %s", file, m)

				used++
			}
		}
	}

	require.Greater(t, used, 40, "the search for metrics is blind")
	require.True(t, json.Valid([]byte(read(t, "deploy/grafana/rolloutd.json"))))

	page := read(t, "docs/operations.md")
	for _, alert := range regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(
		read(t, "deploy/prometheus/alerts.yaml"), -1,
	) {
		require.Contains(t, page, "### "+alert[1]+"\n")
	}
}

// metricsOfReference returns the names of all metrics.
func metricsOfReference(t *testing.T) map[string]bool {
	t.Helper()

	names := map[string]bool{}
	rows := regexp.MustCompile("(?m)^\\| `(rolloutd_[a-z_]+)` \\|")

	for _, row := range rows.FindAllStringSubmatch(read(t, "docs/reference/metrics.md"), -1) {
		names[row[1]] = true
	}

	return names
}

// histogramOf is the metric of a series: histograms have three.
func histogramOf(series string, metrics map[string]bool) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		if name, ok := strings.CutSuffix(series, suffix); ok && metrics[name] {
			return name
		}
	}

	return series
}
