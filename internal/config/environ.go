package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/input/yamlinput"
)

// prefix begins the names of rolloutd's own variables. Other programs own all others.
const prefix = "ROLLOUTD_"

// Environ is an environment: values by name.
type Environ map[string]string

// EnvironOf converts the result of os.Environ.
func EnvironOf(pairs []string) Environ {
	e := Environ{}

	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		e[name] = value
	}

	return e
}

// Check refuses unknown variables that begin with ROLLOUTD_, which are mostly misspelled. Every role
// accepts the variables of all roles, so that one environment file serves a host. Empty variables are
// accepted.
func (e Environ) Check() error {
	var names []string
	for _, v := range Variables() {
		names = append(names, v.Name)
	}

	var errs []error

	for _, name := range slices.Sorted(maps.Keys(e)) {
		if !strings.HasPrefix(name, prefix) || e[name] == "" || slices.Contains(names, name) || e.serviceLink(name) {
			continue
		}

		hint := "docs/reference/configuration.md lists them"
		if near := yamlinput.NearestName(name, prefix, names); near != "" {
			hint = "did you mean " + near + "?"
		}

		errs = append(errs, fmt.Errorf("%s: unknown variable; %s", name, hint))
	}

	return errors.Join(errs...)
}

// serviceLink reports whether Kubernetes set a variable to the address of a service: a service may be named rolloutd.
func (e Environ) serviceLink(name string) bool {
	for host := range e {
		service, ok := strings.CutSuffix(host, "_SERVICE_HOST")
		if rest, matches := strings.CutPrefix(name, service); ok && matches &&
			(strings.HasPrefix(rest, "_SERVICE_") || rest == "_PORT" || strings.HasPrefix(rest, "_PORT_")) {
			return true
		}
	}

	return false
}
