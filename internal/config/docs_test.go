package config_test

import (
	"fmt"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// linkOfDocs is a link to a page in docs.
var linkOfDocs = regexp.MustCompile(`\]\(([a-z]+\.md)`)

// The page has every variable with its setting, default and meaning. UPDATE=1 writes it.
func TestReferenceOfConfiguration(t *testing.T) {
	t.Parallel()

	const page = "../../docs/reference/configuration.md"

	var b strings.Builder

	b.WriteString("# Variables and settings\n\nThis page is generated from the code. " +
		"A variable overrides the setting of the configuration file. " +
		"[configuration.md](configuration.md)\nhas the settings that only the file has.\n")

	for _, section := range config.VariableSections() {
		fmt.Fprintf(&b, "\n## %s\n", section.Title)

		if section.About != "" {
			fmt.Fprintf(&b, "\n%s\n", section.About)
		}

		b.WriteString("\n| variable | setting | default | meaning |\n|---|---|---|---|\n")

		for _, v := range section.Variables {
			setting := "–"
			if v.Path != "" {
				setting = "`" + v.Path + "`"
			}

			require.NotEmpty(t, v.About, v.Name)
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", v.Name, setting, v.Default, v.About)
		}
	}

	text := linkOfDocs.ReplaceAllString(b.String(), "](../$1")

	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(page, []byte(text), 0o644))
	}

	written, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, text, string(written), "UPDATE=1 go test ./internal/config -run TestReferenceOfConfiguration")
}

// A default that the page names as a value is that of the code: to set it changes nothing. Others are filled in where
// the setting is used.
func TestDefaultsOfThePageAreTrue(t *testing.T) {
	t.Parallel()

	value := regexp.MustCompile("^`([^`]+)`$")
	checked := 0

	for _, v := range config.Variables() {
		found := value.FindStringSubmatch(v.Default)
		if found == nil || v.Path == "" || settingAt(config.Defaults(), v.Path).IsZero() {
			continue
		}

		got, err := config.Load(nil, config.Environ{v.Name: found[1]})
		require.NoError(t, err, v.Name)

		want, err := config.Load(nil, config.Environ{})
		require.NoError(t, err)
		require.Equal(
			t,
			settingAt(want, v.Path).Interface(),
			settingAt(got, v.Path).Interface(),
			"the default of %s is not %s",
			v.Name,
			v.Default,
		)

		checked++
	}

	require.Greater(t, checked, 20)
}

// settingAt returns the setting at a path of the file.
func settingAt(c config.Config, path string) reflect.Value {
	at := reflect.ValueOf(c)

	for part := range strings.SplitSeq(path, ".") {
		field, _ := at.Type().FieldByNameFunc(func(name string) bool {
			f, _ := at.Type().FieldByName(name)
			tag, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")

			return tag == part
		})
		at = at.FieldByIndex(field.Index)
	}

	return at
}

// The page has every limit with its default, and what 0 means. UPDATE=1 writes it.
func TestReferenceOfLimits(t *testing.T) {
	t.Parallel()

	const page = "../../docs/reference/limits.md"

	configured := map[string]bool{}
	for field := range reflect.TypeFor[config.Limits]().Fields() {
		configured[field.Tag.Get("yaml")] = true
	}

	var b strings.Builder

	b.WriteString("# Limits\n\nThis page is generated from the code. " +
		"An argument is a number of seconds where its name ends in `_s`; a setting of the configuration file is a\n" +
		"duration such as `5m`, and replaces the default for all rollouts of the server. Limits with the default `derived` follow from the others;\n" +
		"the value is that of the other defaults.\n\n" +
		"| Argument | Setting | Default | 0 means | At most | Meaning |\n|---|---|---|---|---|---|\n")

	filled := rollout.DefaultLimits().Filled()
	// with other times of the agent: what differs is derived
	brief, long := rollout.Limits{Agent: filled.Agent / 8}, rollout.Limits{Agent: 8 * filled.Agent}
	derived := func(b rollout.Bound) bool { return b.Of(brief.Filled()) != b.Of(long.Filled()) && b.Of(long) == 0 }

	for _, bound := range rollout.Bounds() {
		name := strings.TrimSuffix(strings.TrimPrefix(bound.Name, "limits."), "_s")

		setting := "–"
		if configured[name] {
			setting = "`limits." + name + "`"
		}

		value, zero := formatBound(bound, bound.Of(filled)), "the default"
		switch {
		case bound.Of(filled) == 0:
			value, zero = "none", "no bound"
		case derived(bound):
			value = "derived: " + value
		}

		most := "–"
		if v := bound.Max(); !math.IsInf(v, 0) {
			most = formatBound(bound, v)
		}

		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s | %s |\n", bound.Name, setting, value, zero, most, bound.About)
		delete(configured, name)
	}

	require.Empty(t, configured, "settings without a limit")

	if os.Getenv("UPDATE") != "" {
		require.NoError(t, os.WriteFile(page, []byte(b.String()), 0o644))
	}

	text, err := os.ReadFile(page)
	require.NoError(t, err)
	require.Equal(t, b.String(), string(text), "UPDATE=1 go test ./internal/config -run TestReferenceOfLimits")
}

func formatBound(b rollout.Bound, v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	if b.Seconds() {
		// 5m0s and 24h0m0s
		short := strings.Replace(time.Duration(v*float64(time.Second)).String(), "m0s", "m", 1)
		text += " (" + strings.Replace(short, "h0m", "h", 1) + ")"
	}

	return text
}
