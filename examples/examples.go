// Package examples has the example task of `rolloutd-dev --demo`, which a binary without this repository runs.
package examples

import _ "embed"

// BinarySearch is a task file. The scripted model solves it.
//
//go:embed binary_search.yaml
var BinarySearch string
