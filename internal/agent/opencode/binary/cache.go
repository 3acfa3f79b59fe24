// Package binary keeps OpenCode's binary on a host: it downloads a pinned release, verifies its checksum
// and remembers the verified file.
package binary

import (
	"log/slog"
	"path/filepath"
	"runtime"
)

// Options configure a Cache.
type Options struct {
	// AgentsDir is the folder on this host that keeps agents; the local sandbox driver mounts it into its sandboxes.
	AgentsDir string

	// "" is DefaultVersion
	Version string

	// platform of the sandboxes, as GOOS/GOARCH; "" is this host's
	Platform string

	// nil: the supported ones
	Releases []Release

	// the npm command; "" is npm from PATH
	NPM    string
	Logger *slog.Logger
}

// Cache is the folder of one version of OpenCode on this host. It is safe for concurrent use.
type Cache struct {
	opts Options
	log  *slog.Logger
}

// New makes a Cache.
func New(o Options) *Cache {
	if o.Version == "" {
		o.Version = DefaultVersion
	}

	if o.Platform == "" {
		o.Platform = runtime.GOOS + "/" + runtime.GOARCH
	}

	if o.Releases == nil {
		o.Releases = releases()
	}

	if o.NPM == "" {
		o.NPM = "npm"
	}

	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}

	return &Cache{opts: o, log: o.Logger}
}

// Version returns the version of OpenCode.
func (c *Cache) Version() string { return c.opts.Version }

// Path returns the path of the binary, which Fetch makes sure of.
func (c *Cache) Path() string { return filepath.Join(c.dir(), File) }

// Program returns the name of the folder below AgentsDir, AGENT/VERSION.
func (c *Cache) Program() string { return "opencode/" + c.opts.Version }

func (c *Cache) dir() string { return filepath.Join(c.opts.AgentsDir, filepath.FromSlash(c.Program())) }
