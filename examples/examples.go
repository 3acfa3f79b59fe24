// Package examples has the example tasks, for binaries without this repository: those of the page's form, and the one of
// `rolloutd-dev --demo`.
package examples

import "embed"

// Tasks are task files in YAML. The scripted model solves them.
//
//go:embed *.yaml
var Tasks embed.FS

// Demo is the file of Tasks that `rolloutd-dev --demo` runs.
const Demo = "binary_search.yaml"
