package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// prefix begins the names of our own variables. All others may be somebody else's.
const prefix = "ROLLOUTD_"

// Environ is an environment: values by name.
type Environ map[string]string

// EnvironOf reads what os.Environ gives.
func EnvironOf(pairs []string) Environ {
	e := Environ{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		e[name] = value
	}
	return e
}

// Check refuses variables that look like ours and are none, which would do nothing: most are misspelled. Every role takes those of all
// roles, so that one file of variables serves a host. An empty one sets nothing, and is let pass.
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
		hint := "docs/configuration.md lists them"
		if near := nearest(name, prefix, names); near != "" {
			hint = "did you mean " + near + "?"
		}
		errs = append(errs, fmt.Errorf("%s: there is no such variable; %s", name, hint))
	}
	return errors.Join(errs...)
}

// serviceLink says whether a variable tells where a service is: Kubernetes sets such for each service of a namespace, and one may
// well be called rolloutd.
func (e Environ) serviceLink(name string) bool {
	for host := range e {
		service, ok := strings.CutSuffix(host, "_SERVICE_HOST")
		if rest, its := strings.CutPrefix(name, service); ok && its && (strings.HasPrefix(rest, "_SERVICE_") || rest == "_PORT" || strings.HasPrefix(rest, "_PORT_")) {
			return true
		}
	}
	return false
}
