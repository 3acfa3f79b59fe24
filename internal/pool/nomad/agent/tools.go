//go:build tools

// Package agent pins the Nomad that `deploy/suite.sh nomad` builds. It is a module of its own, so that
// nothing else compiles or contains Nomad. Nomad's own go.mod has replacements, which `go install` refuses;
// this one repeats them.
package agent

import _ "github.com/hashicorp/nomad"
