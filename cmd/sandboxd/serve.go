package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver/usage"
	"github.com/rolloutd/rolloutd/internal/sandboxd"
	"github.com/rolloutd/rolloutd/internal/sandboxd/process"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// expiredStatus is the exit status when the lease has run out.
const expiredStatus = 3

type serveFlags struct {
	controlFD   int
	controlPath string
	modelAddr   string
	id          string
	lease       time.Duration
	treeLimit   int64
	processes   uint64
	separate    bool
	filter      []byte
	folders     bool
	fill        map[string]string
	agent       process.Agent
	workdir     wire.Workdir
	startIn     wire.Workdir
	env         wire.BaseEnv
	cgroups     []*os.File
	cgroup      *os.File
	reclaim     *os.File
	usage       usage.Sources
}

func parseServe(args []string) (serveFlags, error) {
	var f serveFlags

	fs := flag.NewFlagSet("serve", flag.ContinueOnError)
	fs.IntVar(&f.controlFD, "control-fd", -1, "inherited descriptor of the listening control socket")
	fs.StringVar(&f.controlPath, "control-path", "", "path to listen on for control, instead of a descriptor")
	fs.StringVar(&f.modelAddr, "model-addr", wire.ModelAddr, "address to listen on for the agent's model calls")
	fs.StringVar(&f.id, "id", "", "id of the sandbox")
	fs.DurationVar(&f.lease, "lease", 0, "end the sandbox when not renewed for this long; 0: never")
	fs.Int64Var(&f.treeLimit, "tree-limit", 0, "most bytes of file contents in one tar; 0: 4 GiB")
	fs.Uint64Var(&f.processes, "max-processes", 0, "most processes and threads of the sandbox's user; 0: no limit")
	fs.Func(
		"cgroup-fds",
		"inherited descriptors of files through which started processes enter their cgroups",
		f.openCgroups,
	)
	fs.Func(
		"cgroup-folder-fd",
		"inherited descriptor of the cgroup of version 2 that started processes are forked into, instead; 0: none",
		f.openCgroup,
	)
	fs.Func(
		"reclaim-fd",
		"inherited descriptor of the file through which memory of started processes is swapped out; 0: none",
		f.openReclaim,
	)
	fs.Func("usage", "where what the sandbox used is read, as JSON: usage.Sources", f.setUsage)
	fs.BoolVar(&f.separate, "separate-users", false, "the user namespace maps user ids for the agent and the verifier")
	fs.Func(
		"filter",
		"the system call filter of a verifier's sandbox, in base64, to set when the place of the work exists; "+
			"default: not a verifier's",
		f.setFilter,
	)
	fs.BoolVar(&f.folders, "make-folders", false,
		"make the folders of the agent and the verifier, which the driver could not")
	fs.Func("fill", "folders to fill before anything runs, as JSON: copy → folder", f.setFill)
	fs.Func("env", "environments that processes start from, as JSON", f.setEnv)
	fs.Func(
		"agent",
		"the user of the image that the agent is where users are separate, as uid:gid:groups; default: one of the sandbox",
		f.setAgent,
	)
	fs.StringVar((*string)(&f.workdir), "workdir", "", "the folder of the home that is the workdir; default: workdir")
	fs.StringVar((*string)(&f.startIn), "start-in", "", "the workdir's name in the image, where its processes start; default: the workdir")
	fs.BoolVar(&f.agent.Bare, "bare", false, "an agent that is user 0 has no capabilities")
	fs.Func("env-fd", "inherited descriptor of the environments that processes start from, as JSON", f.readEnv)

	if err := fs.Parse(args); err != nil {
		return f, err
	}

	if (f.controlFD < 0) == (f.controlPath == "") {
		return f, fmt.Errorf("serve: needs exactly one of --control-fd and --control-path")
	}

	return f, nil
}

func (f *serveFlags) openCgroups(list string) error {
	for digits := range strings.SplitSeq(list, ",") {
		if digits == "" {
			continue
		}

		fd, err := strconv.Atoi(digits)
		if err != nil {
			return err
		}

		f.cgroups = append(f.cgroups, os.NewFile(uintptr(fd), "cgroup"))
	}

	return nil
}

func (f *serveFlags) openCgroup(digits string) error {
	fd, err := strconv.Atoi(digits)
	if fd != 0 {
		f.cgroup = os.NewFile(uintptr(fd), "cgroup")
	}

	return err
}

func (f *serveFlags) openReclaim(digits string) error {
	fd, err := strconv.Atoi(digits)
	if fd != 0 {
		f.reclaim = os.NewFile(uintptr(fd), "reclaim")
	}

	return err
}

func (f *serveFlags) setAgent(name string) error {
	if name == "" {
		return nil
	}

	account, err := wire.ParseAccount(name)
	f.agent.Image = &account

	return err
}

func (f *serveFlags) setFilter(text string) (err error) {
	if text != "" {
		f.filter, err = base64.StdEncoding.DecodeString(text)
	}

	return err
}

func (f *serveFlags) setFill(text string) error { return json.Unmarshal([]byte(text), &f.fill) }

func (f *serveFlags) setEnv(text string) error { return json.Unmarshal([]byte(text), &f.env) }

func (f *serveFlags) setUsage(text string) error { return json.Unmarshal([]byte(text), &f.usage) }

func (f *serveFlags) readEnv(digits string) error {
	fd, err := strconv.Atoi(digits)
	if err != nil {
		return err
	}

	file := os.NewFile(uintptr(fd), "env")
	defer file.Close()

	return json.NewDecoder(file).Decode(&f.env)
}

func serve(ctx context.Context, args []string) error {
	f, err := parseServe(args)
	if err != nil {
		return err
	}

	tuneRuntime()

	log := slog.New(slog.NewTextHandler(os.Stderr, nil))

	place, err := f.prepare()
	if err != nil {
		return err
	}

	server := sandboxd.New(sandboxd.Options{
		SandboxID:     f.id,
		Version:       version,
		Lease:         f.lease,
		TreeLimit:     f.treeLimit,
		SeparateUsers: f.separate,
		Agent:         f.agent,
		Workdir:       f.workdir,
		StartIn:       f.startIn,
		Env:           f.env,
		Cgroups:       f.cgroups,
		Cgroup:        f.cgroup,
		Reclaim:       f.reclaim,
		Usage:         f.usage,
		Place:         place,
		Logger:        log,
		Expired: func() {
			log.Warn("lease ran out")
			// the end of pid 1 ends every process of the sandbox
			os.Exit(expiredStatus)
		},
	})

	if err := sandboxd.Guard(); err != nil {
		return fmt.Errorf("guard: %w", err)
	}

	if err := sandboxd.LimitProcesses(f.processes); err != nil {
		return err
	}

	control, err := f.listen()
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}

	model, err := net.Listen("tcp", f.modelAddr)
	if err != nil {
		return fmt.Errorf("model address: %w", err)
	}

	return server.Run(ctx, control, model)
}

// prepare fills the folders and separates the users, before the first process starts.
func (f serveFlags) prepare() (*sandboxd.Place, error) {
	for from, to := range f.fill {
		if err := sandboxd.Fill(from, to); err != nil {
			return nil, fmt.Errorf("fill %s: %w", to, err)
		}
	}

	if f.folders {
		if err := sandboxd.MakeFolders(filepath.Dir(f.controlPath), f.workdir); err != nil {
			return nil, fmt.Errorf("make folders: %w", err)
		}
	}

	if !f.separate {
		return nil, nil //nolint:nilnil // users that are not separate have no place of the work
	}

	place, err := sandboxd.Separate(sandboxd.Separation{
		Agent: f.agent, Workdir: f.workdir, StartIn: f.startIn, Filter: f.filter, Env: f.env, Cgroups: f.cgroups, Cgroup: f.cgroup, Processes: f.processes,
	})
	if err != nil {
		return nil, fmt.Errorf("separate users: %w", err)
	}

	return place, nil
}

func (f serveFlags) listen() (net.Listener, error) {
	if f.controlPath != "" {
		// left by a sandbox that ended
		if err := os.Remove(f.controlPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}

		return net.Listen("unix", f.controlPath)
	}

	file := os.NewFile(uintptr(f.controlFD), "control")
	defer file.Close()

	return net.FileListener(file)
}

// tuneRuntime keeps the supervisor small: its memory counts as the sandbox's.
func tuneRuntime() {
	runtime.GOMAXPROCS(2)
	debug.SetGCPercent(50)
	debug.SetMemoryLimit(128 << 20)
}
