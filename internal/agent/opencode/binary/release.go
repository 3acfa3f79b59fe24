package binary

import (
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// DefaultVersion is the version of OpenCode for which package opencode is written and tested.
const DefaultVersion = "1.18.33"

// Release is one build of OpenCode.
type Release struct {
	Version, Platform string

	// name of the npm package
	Package string

	// digest of bin/opencode in the package
	SHA256 string
}

// releases is the table of supported builds with their checksums. The glibc x64 build and its "baseline"
// variant are the same file.
func releases() []Release {
	return []Release{
		{
			"1.18.33", "linux/amd64", "opencode-linux-x64",
			"0abbb7c32ab0294c0a7bfa2705f9ff0df5dce5ab721d1f00cccfe393f2a11427",
		},
	}
}

// find returns the build for the cache's version and platform, or an error that lists the supported ones.
func (c *Cache) find() (Release, error) {
	var known []string

	for _, r := range c.opts.Releases {
		if r.Version == c.opts.Version && r.Platform == c.opts.Platform {
			return r, nil
		}

		known = append(known, r.Version+" for "+r.Platform)
	}

	slices.Sort(known)

	return Release{}, fault.New(fault.NotFound,
		"opencode %s for %s is not supported: no checksum is pinned for it (supported: %s); run the worker on, or with sandboxes of, a supported platform",
		c.opts.Version, c.opts.Platform, strings.Join(known, ", "))
}
