package taskset

import (
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// harborMount stands for a folder that Harbor mounts, which a task here has of its own.
const harborMount = "./.harbor"

// Absolute paths in a compose file: the folder of the task, and environment/ in it.
const (
	harborTaskFolder = "/harbor-task"
	harborContext    = harborTaskFolder + "/" + environmentFolder
)

// composeVariables are the variables of a task's compose file: those of its environment, and Harbor's own over them.
func composeVariables(env map[string]string) map[string]string {
	all := maps.Clone(env)
	maps.Copy(all, map[string]string{
		"CONTEXT_DIR":             harborContext,
		"MAIN_IMAGE_NAME":         "",
		"PREBUILT_IMAGE_NAME":     "",
		"TEST_DIR":                "/tests",
		"CPUS":                    "0",
		"MEMORY":                  "",
		"NETWORK_MODE":            "bridge",
		"ENV_VERIFIER_LOGS_PATH":  "/logs/verifier",
		"ENV_AGENT_LOGS_PATH":     "/logs/agent",
		"ENV_ARTIFACTS_PATH":      "/logs/artifacts",
		"HOST_VERIFIER_LOGS_PATH": harborMount,
		"HOST_AGENT_LOGS_PATH":    harborMount,
		"HOST_ARTIFACTS_PATH":     harborMount,
	})

	return all
}

// interpolate replaces the variables in all values.
func interpolate(n *yaml.Node, variables map[string]string) error {
	if n.Kind == yaml.ScalarNode && strings.Contains(n.Value, "$") {
		value, err := replaceVariables(n.Value, variables)
		if err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}

		n.Value = value

		if n.Style == 0 {
			// it may be a number now
			n.Tag = ""
		}

		if n.ShortTag() == "!!null" {
			// an empty value is a value
			n.Tag = "!!str"
		}

		return nil
	}

	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			// a name
			continue
		}

		if err := interpolate(child, variables); err != nil {
			return err
		}
	}

	return nil
}

// variableName finds the name of a variable at the beginning of a text.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)

// maxNested bounds braces within each other.
const maxNested = 20

// replaceVariables replaces the variables in a text, as the compose specification says. A task gets no variable of the host,
// so one that is not known must have a default.
func replaceVariables(text string, variables map[string]string) (string, error) {
	var out strings.Builder

	for {
		before, use, found := strings.Cut(text, "$")
		out.WriteString(before)

		if !found {
			return out.String(), nil
		}

		value, rest, err := replaceVariable(use, variables)
		if err != nil {
			return "", err
		}

		out.WriteString(value)

		text = rest
	}
}

// replaceVariable returns the value of the variable with which a text begins, without its dollar sign, and what follows it.
func replaceVariable(text string, variables map[string]string) (value, rest string, err error) {
	if rest, escaped := strings.CutPrefix(text, "$"); escaped {
		return "$", rest, nil
	}

	if strings.HasPrefix(text, "{") {
		end := closingBrace(text)
		if end < 0 {
			return "", "", fmt.Errorf("$%.100s: must end with a }, after at most %d within it", text, maxNested)
		}

		value, err = replaceBraced(text[1:end], variables)

		return value, text[end+1:], err
	}

	name := variableName.FindString(text)

	value, known := variables[name]
	if !known {
		return "", "", errUnknown(name, "$"+name)
	}

	return value, text[len(name):], nil
}

// closingBrace is the index of the brace that closes the one with which a text begins; -1: there is none.
func closingBrace(text string) int {
	open := 0

	for i, c := range text {
		switch c {
		case '{':
			open++
		case '}':
			open--
		}

		switch {
		case open == 0:
			return i
		case open > maxNested:
			return -1
		}
	}

	return -1
}

// replaceBraced returns the value of a variable that stands in braces, or the other text that follows its operator. With a
// colon an empty variable is as one that is not known.
func replaceBraced(text string, variables map[string]string) (string, error) {
	name := variableName.FindString(text)
	operator, colon := strings.CutPrefix(text[len(name):], ":")

	value, known := variables[name]
	if colon && value == "" {
		known = false
	}

	kind, other := "", ""
	if operator != "" {
		kind, other = operator[:1], operator[1:]
	}

	switch {
	case name == "" || kind == "" && (colon || !known):
		return "", errUnknown(name, "${"+text+"}")
	case kind == "-" && !known, kind == "+" && known:
		return replaceVariables(other, variables)
	case kind == "+":
		return "", nil
	case kind == "?" && !known:
		return "", fmt.Errorf("${%s}: must have a value, which a task gets from no variable of the host: %s", name, other)
	case kind == "" || kind == "-" || kind == "?":
		return value, nil
	default:
		return "", errUnknown(name, "${"+text+"}")
	}
}

func errUnknown(name, use string) error {
	return fmt.Errorf(
		"%.200s: must be a value or have a default (${%s:-value}): a task gets no variable of the host", use, cmp.Or(name, "NAME"),
	)
}
