package rest

import (
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// knownQuery refuses requests whose query is unreadable, or has a parameter that the route does not
// describe or that is given twice: it would have no effect, and the answer would not be what was asked for.
func knownQuery(rt api.Route) api.Route {
	known, handle := queryOf(rt.Operation.Reads), rt.Handle
	if !slices.Contains(rt.Operation.Refuses, http.StatusUnprocessableEntity) {
		rt.Operation.Refuses = append(slices.Clone(rt.Operation.Refuses), http.StatusUnprocessableEntity)
	}

	rt.Handle = func(w http.ResponseWriter, r *http.Request) {
		if err := checkQuery(r.URL.RawQuery, known); err != nil {
			httpio.WriteRefusal(w, err)
			return
		}

		handle(w, r)
	}

	return rt
}

// queryOf returns the names of the query parameters that a request's type describes.
func queryOf(reads any) (names []string) {
	if reads == nil {
		return nil
	}

	for _, f := range reflect.VisibleFields(reflect.TypeOf(reads)) {
		if name := f.Tag.Get("query"); name != "" {
			names = append(names, name)
		}
	}

	return names
}

func checkQuery(raw string, known []string) error {
	// URL.Query skips unreadable ones
	q, err := url.ParseQuery(raw)
	if err != nil {
		return fault.Field("query", "%v: values must be escaped, as %%25 and %%3B", err)
	}

	for _, name := range slices.Sorted(maps.Keys(q)) {
		switch n := len(q[name]); {
		case len(known) == 0:
			return fault.Field(name, "there is no such parameter: this route has none")
		case !slices.Contains(known, name):
			return fault.Field(name, "there is no such parameter: must be one of %s", strings.Join(known, ", "))
		case n > 1:
			return fault.Field(name, "must be given once, got %d times", n)
		}
	}

	return nil
}
