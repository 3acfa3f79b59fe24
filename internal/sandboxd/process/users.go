package process

import (
	"net/http"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/child"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// VerifierCapabilities let the verifier read and change the agent's files whatever their modes, as a grader run by root would: an
// honest submission may hold files of mode 0600, and a script may compile or patch in the workdir.
const VerifierCapabilities = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

// RootCapabilities are those of an agent that is user 0: what root of a container needs to install programs and to start services. The user
// namespace knows no ids but the sandbox's own, so they reach nothing outside it.
const RootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_NET_BIND_SERVICE

// Agent says who the agent is where users are separate. The zero value is the user wire.AgentID.
type Agent struct {
	// Image is the user of the image that the agent is; nil: wire.AgentID.
	Image *wire.Account
	// Bare takes RootCapabilities from an agent that is user 0: its programs run beside a verifier.
	Bare bool
}

// Account is the agent's user and groups.
func (a Agent) Account() wire.Account {
	if a.Image == nil {
		return wire.Account{UID: wire.AgentID, GID: wire.AgentID}
	}
	return *a.Image
}

// IsRoot says whether the agent is user 0 inside.
func (a Agent) IsRoot() bool { return a.Account().UID == 0 }

// VerifierID is the verifier's user and group beside this agent.
func (a Agent) VerifierID() int { return a.Image.VerifierID() }

func (a Agent) user() *child.User {
	as := a.Account()
	u := &child.User{UID: as.UID, GID: as.GID, Groups: as.Groups}
	if a.IsRoot() && !a.Bare {
		u.Capabilities = RootCapabilities
	}
	return u
}

// Users maps the names of users to ids. Where they are not separate every process runs as the user of sandboxd.
type Users struct {
	separate bool
	agent    Agent
}

// Find returns the user of that name, nil where users are not separate.
func (u Users) Find(name string) (*child.User, error) {
	var found *child.User
	switch name {
	case "":
		found = u.agent.user()
	case wire.VerifierUser:
		// sandboxd's group is the one that /proc shows all processes to.
		found = &child.User{UID: u.agent.VerifierID(), GID: u.agent.VerifierID(), Groups: []int{os.Getgid()}, Capabilities: VerifierCapabilities}
	default:
		return nil, fault.Field("user", "%q must be empty or %q", name, wire.VerifierUser)
	}
	if !u.separate {
		return nil, nil
	}
	return found, nil
}

// Run runs f on a thread whose file system user is the given one, so that every path is opened as a process of that user would
// open it, whatever sandboxd itself may do. An error means that f was not run.
func (u Users) Run(user *child.User, f func()) error {
	if user == nil {
		f()
		return nil
	}
	runtime.LockOSThread()
	defer restoreThread()
	if !setThread(user.UID, user.GID) {
		return fault.New(fault.Internal, "cannot become user %d", user.UID)
	}
	f()
	return nil
}

// setThread sets the user and the group that the kernel checks for this thread's access to files. A file system user other than
// 0 also takes every capability over files from the thread, and 0 gives it those that sandboxd may have: an agent that is 0 has them too.
func setThread(uid, gid int) bool {
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	// Neither call reports a refusal; asking for an impossible id returns the current one.
	nowUID, _ := unix.SetfsuidRetUid(-1)
	nowGID, _ := unix.SetfsgidRetGid(-1)
	return nowUID == uid && nowGID == gid
}

// restoreThread gives the thread back to the runtime. One that could not be restored stays locked, and ends with its goroutine.
func restoreThread() {
	if setThread(os.Getuid(), os.Getgid()) {
		runtime.UnlockOSThread()
		return
	}
	panic(http.ErrAbortHandler)
}
