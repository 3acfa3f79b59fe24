// Package driver is what a sandbox provider implements: make a sandbox with sandboxd as its first process, reach that
// sandboxd, take the sandbox away, list what there is. All else (processes, files, the model channel, defaults, spans,
// error kinds) is shared code in package sandbox.
//
// Every method is idempotent by the id that the caller gives, because activities run again after a crash.
package driver

import (
	"context"
	"net"
	"time"
)

// Spec is a sandbox with all defaults filled in; drivers never guess.
type Spec struct {
	Image string // what the driver calls an image; "" is its default root file system
	// User makes the agent a user of the image, an unprivileged one of the host: rollout.UserRoot, rollout.UserOfImage, or the name or the id of
	// an account, with or without ":group". Workdir is a folder of the image that is the workdir too, or rollout.WorkdirOfImage; ImageEnv starts processes from the image's environment. GradePaths are folders of the image that
	// a verifier's sandbox gets from the agent's. All need an image; a driver without them refuses.
	User       string
	Workdir    string
	ImageEnv   bool
	GradePaths []string

	CPU       float64       // cores
	MemoryMiB int           // whole sandbox, tmpfs included
	PIDs      int           // processes and threads
	HomeMiB   int           // size of the home directory
	TmpMiB    int           // size of /tmp
	Lease     time.Duration // sandboxd ends the sandbox when not renewed for this long
	Idle      bool          // the sandbox gets the CPU time that others leave, where the driver can do that
	Labels    map[string]string
}

// Label names every driver keeps with a sandbox.
const (
	LabelRollout = "rollout"
	LabelAttempt = "attempt"
	LabelPurpose = "purpose" // PurposeAgent, PurposeVerifier or PurposeWarm
	LabelWarm    = "warm"    // of PurposeWarm: which jobs its agent can take
)

// Values of LabelPurpose.
const (
	PurposeAgent    = "agent"
	PurposeVerifier = "verifier"
	PurposeWarm     = "warm" // made ahead of time, of no rollout yet
)

// Info is one sandbox as List returns it.
type Info struct {
	ID        string
	Labels    map[string]string
	CreatedAt time.Time
	// CPU, MemoryMiB and HomeMiB are those of its Spec; zero where the provider does not know them any more.
	CPU       float64
	MemoryMiB int
	HomeMiB   int
}

// Driver makes and reaches sandboxes of one provider.
type Driver interface {
	// Create makes the sandbox, or finds the one of that id that lives. It returns when sandboxd accepts connections.
	// A sandbox of that id which has died is made anew from nothing.
	Create(ctx context.Context, id string, spec Spec) error
	// Dial opens a connection to the sandbox's sandboxd. A sandbox that is gone is a fault.SandboxLost.
	Dial(ctx context.Context, id string) (net.Conn, error)
	// Destroy ends every process of the sandbox and frees what it held; of what is gone it is a no-op.
	Destroy(ctx context.Context, id string) error
	// List returns the living sandboxes of this provider and deployment.
	List(ctx context.Context) ([]Info, error)
	// Renew puts off a lease that the provider itself keeps (a cloud's own timeout). sandboxd's is renewed by package sandbox.
	Renew(ctx context.Context, id string, lease time.Duration) error
}

// Preparer is implemented by drivers for which a sandbox may need what takes long to fetch, such as an image.
type Preparer interface {
	// Prepare fetches what sandboxes of the spec need. Create does so too; but its caller bounds it to the time of a start.
	Prepare(ctx context.Context, spec Spec) error
}

// Handover is implemented by drivers that can give a living sandbox to a rollout that came after it was made.
type Handover interface {
	// HandOver gives the living sandbox from the id to, and the labels and sizes of spec, in one step: whatever process is killed
	// meanwhile, the sandbox lives under one of the two ids or not at all. From then on from is gone.
	//
	// Of several calls for one from, one succeeds. A from that is gone is a fault.SandboxLost. A living sandbox to, or a spec that
	// a living sandbox cannot be given, is a fault.Conflict.
	HandOver(ctx context.Context, from, to string, spec Spec) error
	// HandedOver is when the living sandbox was given its id; zero when it was created under it.
	HandedOver(ctx context.Context, id string) (time.Time, error)
}

// Inspector is implemented by drivers that know what a sandbox used.
type Inspector interface {
	Inspect(ctx context.Context, id string) (Usage, error)
}

// Usage is what a sandbox used so far, by counters that its processes cannot change; a number the driver cannot know is -1.
type Usage struct {
	OOMKills        int // processes that the kernel killed because the sandbox's memory was used up
	ForksRefused    int // processes and threads that the kernel refused because the sandbox had as many as it may
	PeakMemoryBytes int64
	CPU             time.Duration
	// Killed says that the sandbox ended because the kernel killed sandboxd itself for want of memory.
	Killed bool `json:",omitempty"`
	// FullFolders are the mount points in the sandbox whose file systems have no room left at this moment.
	FullFolders []string `json:",omitempty"`
}

// NoUsage is a usage without any known number.
func NoUsage() Usage { return Usage{OOMKills: -1, ForksRefused: -1, PeakMemoryBytes: -1, CPU: -1} }

// Checker is implemented by drivers that can check beforehand whether they will work here.
type Checker interface {
	Check(ctx context.Context) []Finding
}

// Finding is one fact about this machine: what is available or missing, and how to fix it.
type Finding struct {
	Name   string
	Level  Level
	Detail string
	Fix    string // a command or a sentence; empty where nothing needs fixing
}

// Level says how grave a finding is.
type Level int

const (
	OK   Level = iota
	Warn       // works, with fewer guarantees
	Fail       // refuses to run
)
