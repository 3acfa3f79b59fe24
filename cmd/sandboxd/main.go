// Command sandboxd is the first process of every sandbox; see package sandboxd. It is static and small, so
// that it runs in whatever root file system the sandbox has.
//
//	sandboxd serve --control-fd N | --control-path PATH [flags]
//	sandboxd probe HOST:PORT    checks that forbidden operations fail, prints the findings as JSON
//	sandboxd stage              the step between the host and bwrap; see package launcher
//	sandboxd place              the first process of the place of the work in a verifier's sandbox; see sandboxd.Place
//	sandboxd child              the step between sandboxd and a process that it starts; see package prestart
//	sandboxd first FD           becomes the command of an image's build, the first process of its sandbox; see package prestart
//	sandboxd file TOOL          reads, writes, edits or lists files for a tool call; see package filetool
//	sandboxd attach [--framed TIME] PATH
//	                            carries a control connection over its standard streams; see package attach
//	sandboxd enclose CONFIG     makes a sandbox of a part of this machine or container; see package nested
//	sandboxd version
//
// Under the name run-as-agent it is the helper of package runas.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/driver/launcher"
	"github.com/rolloutd/rolloutd/internal/driver/nested"
	"github.com/rolloutd/rolloutd/internal/sandboxd"
	"github.com/rolloutd/rolloutd/internal/sandboxd/attach"
	"github.com/rolloutd/rolloutd/internal/sandboxd/filetool"
	"github.com/rolloutd/rolloutd/internal/sandboxd/isolationprobe"
	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/runas"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// version is stamped at build time.
var version = "dev"

func main() {
	switch {
	case filepath.Base(os.Args[0]) == runas.Name:
		os.Exit(runas.Main(os.Args[1:]))
	case runas.IsShim(os.Args[0]):
		os.Exit(runas.Dispatch(os.Args))
	}

	err := run(context.Background(), os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandboxd:", err)
	}

	switch {
	case errors.Is(err, attach.ErrGone):
		os.Exit(attach.GoneStatus)
	case err != nil:
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("needs a command: serve, probe, stage or version")
	}

	switch args[0] {
	case "serve":
		return serve(ctx, args[1:])
	case "probe":
		if len(args) != 2 {
			return fmt.Errorf("probe: needs one address, got %d arguments", len(args)-1)
		}

		return json.NewEncoder(os.Stdout).Encode(isolationprobe.Run(ctx, args[1]))
	case launcher.Command:
		return launcher.Run()
	case sandboxd.PlaceCommand:
		tuneRuntime()
		return sandboxd.ServePlace(ctx)
	case prestart.Command:
		return prestart.Run()
	case prestart.FirstCommand:
		return prestart.RunFirst(args[1:])
	case wire.FileTool:
		if len(args) != 2 {
			return fmt.Errorf("file: needs one tool, got %d arguments", len(args)-1)
		}

		return filetool.Main(args[1], os.Stdin, os.Stdout)
	case attach.Command:
		return attach.Run(args[1:])
	case nested.Command, nested.Inside:
		return nested.Run(args)
	case "version":
		_, err := fmt.Println(version)
		return err
	default:
		return fmt.Errorf("no command %q", args[0])
	}
}
