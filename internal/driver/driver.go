// Package driver is the interface of a sandbox provider: create a sandbox with sandboxd as its first
// process, reach that sandboxd, destroy the sandbox, list the sandboxes. Everything else (processes, files,
// the model channel, defaults, spans, error kinds) is shared code in package sandbox.
//
// Every method is idempotent by the caller's id, because activities run again after a crash.
package driver

import (
	"cmp"
	"context"
	"net"
	"time"
)

// Spec describes a sandbox, with all defaults set; drivers set none.
type Spec struct {
	// the driver's name of the image; "": its default root file system
	Image string
	// User is the agent's user of the image, which is an unprivileged user of the host: rollout.UserRoot,
	// rollout.UserOfImage, or the name or the id of an account, with or without ":group". Workdir is a
	// folder of the image that becomes the workdir, or rollout.WorkdirOfImage. ImageEnv starts processes
	// from the image's environment. GradePaths are folders of the image that a verifier's sandbox gets from
	// the agent's. All need an image; a driver without images refuses them.
	User       string
	Workdir    string
	ImageEnv   bool
	GradePaths []string
	// Changed are folders outside of these that the agent has changed. A verifier's sandbox gets those that
	// hold no program of the image; see imageconfig.Guest. Other sandboxes ignore them.
	Changed []string

	// variables for all processes, which take precedence over those of the image
	Env map[string]string

	// Beside is the id of the living sandbox whose loopback network this one joins; "": it has its own. Hosts are
	// names of 127.0.0.1. A driver without services refuses them.
	Beside string
	Hosts  []string
	// Volumes are folders that it shares with the sandbox Beside and all others beside that one. Without Beside it
	// shares them with those beside itself.
	Volumes []Volume

	// cores
	CPU float64

	// memory of the whole sandbox, tmpfs included
	MemoryMiB int

	// processes and threads
	PIDs int

	// size of the home directory
	HomeMiB int

	// size of /tmp
	TmpMiB int

	// time without renewal after which sandboxd ends the sandbox
	Lease time.Duration

	// the sandbox gets only CPU time that others leave, if the driver supports that
	Idle   bool
	Labels map[string]string
}

// Volume is a folder that begins empty and lives as long as the sandbox that others stand beside.
type Volume struct {
	Name string

	// path in the sandbox, absolute
	Path     string
	ReadOnly bool
}

// Main is the sandbox to which the volumes belong: that of the id, or the one that it stands beside.
func (s Spec) Main(id string) string { return cmp.Or(s.Beside, id) }

// IsVerifier reports whether the sandbox is one in which work is graded.
func (s Spec) IsVerifier() bool { return s.Labels[LabelPurpose] == PurposeVerifier }

// Labels that every driver keeps with a sandbox.
const (
	LabelRollout = "rollout"
	LabelAttempt = "attempt"

	// the owner of the rollout; missing: all clients are one
	LabelOwner = "owner"

	// PurposeAgent, PurposeVerifier or PurposeWarm
	LabelPurpose = "purpose"

	// on a sandbox of PurposeService: the purpose of the sandbox that it stands beside
	LabelBeside = "beside"

	// on a sandbox of PurposeWarm: the jobs that its agent can take
	LabelWarm = "warm"
)

// Values of LabelPurpose.
const (
	PurposeAgent    = "agent"
	PurposeVerifier = "verifier"

	// created ahead of time, without a rollout
	PurposeWarm = "warm"

	// a service, beside the sandbox of an agent or a verifier
	PurposeService = "service"
)

// Info describes one sandbox of List.
type Info struct {
	ID        string
	Labels    map[string]string
	CreatedAt time.Time
	// CPU, MemoryMiB and HomeMiB are those of its Spec; zero: unknown to the provider.
	CPU       float64
	MemoryMiB int
	HomeMiB   int
}

// Driver creates and reaches sandboxes of one provider.
type Driver interface {
	// Create creates the sandbox, or finds the living one of that id. It returns when sandboxd accepts
	// connections. It replaces a dead sandbox of that id by an empty new one.
	Create(ctx context.Context, id string, spec Spec) error
	// Dial connects to the sandbox's sandboxd; fault.SandboxLost: the sandbox is gone.
	Dial(ctx context.Context, id string) (net.Conn, error)
	// Destroy ends every process of the sandbox and frees its resources. It is a no-op for a sandbox that is gone.
	Destroy(ctx context.Context, id string) error
	// List returns the living sandboxes of this provider and deployment.
	List(ctx context.Context) ([]Info, error)
	// Renew extends a lease that the provider itself keeps (a cloud's own timeout). Package sandbox renews sandboxd's.
	Renew(ctx context.Context, id string, lease time.Duration) error
}

// Preparer is implemented by drivers whose sandboxes need data that takes long to fetch, such as an image.
type Preparer interface {
	// Prepare fetches the data for sandboxes of the spec. Create does so too, but within the time limit of a start.
	Prepare(ctx context.Context, spec Spec) error
}

// ImageReader is implemented by drivers whose sandboxes can run the program that their image names.
type ImageReader interface {
	// Program returns the program of the image of the spec; fault.Invalid: the image cannot be used.
	Program(ctx context.Context, spec Spec) (Program, error)
}

// Program is the program that an image names.
type Program struct {
	Entrypoint, Command []string

	// "": /
	Dir string
}

// Handover is implemented by drivers that can assign a living sandbox to a rollout that began later.
type Handover interface {
	// HandOver changes the id of the living sandbox from to to, with the labels and sizes of spec,
	// atomically: if a process is killed meanwhile, the sandbox lives under one of the two ids or not at
	// all. Afterwards from does not exist.
	//
	// Of several calls for one from, one succeeds. A missing from is a fault.SandboxLost. A living sandbox
	// to, or a spec that does not fit a living sandbox, is a fault.Conflict.
	HandOver(ctx context.Context, from, to string, spec Spec) error
	// HandedOver returns when the living sandbox got its id; zero: it was created under it.
	HandedOver(ctx context.Context, id string) (time.Time, error)
}

// Inspector is implemented by drivers that measure the usage of a sandbox.
type Inspector interface {
	Inspect(ctx context.Context, id string) (Usage, error)
}

// Usage is a sandbox's usage so far, from counters that its processes cannot change; -1: unknown to the driver.
type Usage struct {
	// processes that the kernel killed because the sandbox's memory was full, or its host's
	OOMKills int

	// processes and threads that the kernel refused because the sandbox had its maximum
	ForksRefused    int
	PeakMemoryBytes int64
	CPU             time.Duration
	// ByHost: the sandbox reached no limit of its own, so the kernel killed the processes because the
	// host's memory was full. A driver that cannot tell leaves it false.
	ByHost bool `json:",omitempty"`
	// Killed: the sandbox ended because the kernel killed sandboxd for lack of memory.
	Killed bool `json:",omitempty"`
	// FullFolders are the mount points in the sandbox whose file systems are full at this moment.
	FullFolders []string `json:",omitempty"`
}

// NoUsage returns a usage without known numbers.
func NoUsage() Usage { return Usage{OOMKills: -1, ForksRefused: -1, PeakMemoryBytes: -1, CPU: -1} }

// Checker is implemented by drivers that can check whether they work on this machine.
type Checker interface {
	Check(ctx context.Context) []Finding
}

// Finding is one fact about this machine: what is available or missing, and how to fix it.
type Finding struct {
	Name   string
	Level  Level
	Detail string

	// a command or a sentence; empty: nothing to fix
	Fix string
}

// Level is the severity of a finding.
type Level int

const (
	OK Level = iota

	// works, with fewer guarantees
	Warn

	// does not run
	Fail
)
