package opencode

import (
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// DefaultVersion is the version of OpenCode for which this package is written and tested.
const DefaultVersion = "1.18.33"

// release is one supported build of OpenCode.
type release struct {
	version, platform string
	npmPackage        string
	sha256            string // of bin/opencode in the package
}

// releases is the table of supported builds with their checksums. The glibc x64 build and its "baseline" variant are the same file.
func releases() []release {
	return []release{
		{"1.18.33", "linux/amd64", "opencode-linux-x64", "0abbb7c32ab0294c0a7bfa2705f9ff0df5dce5ab721d1f00cccfe393f2a11427"},
	}
}

// findRelease returns the build for a version and platform, or an error that lists the supported ones.
func findRelease(version, platform string) (release, error) {
	var known []string
	for _, r := range releases() {
		if r.version == version && r.platform == platform {
			return r, nil
		}
		known = append(known, r.version+" for "+r.platform)
	}
	slices.Sort(known)
	return release{}, fault.New(fault.Invalid,
		"opencode %s for %s is not supported: no checksum is pinned for it (supported: %s); run the worker on, or with sandboxes of, a supported platform",
		version, platform, strings.Join(known, ", "))
}
