package process

import (
	"net/http"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// VerifierCapabilities let the verifier read and change the agent's files whatever their modes, as a grader
// run by root would: an honest submission may have files of mode 0600, and a script may compile or patch in
// the workdir.
const VerifierCapabilities = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

// RootCapabilities are those of an agent that is user 0: the ones that root of a container needs to install
// programs and start services. The user namespace maps only the sandbox's ids, so they have no effect
// outside of it.
const RootCapabilities = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID | 1<<unix.CAP_KILL |
	1<<unix.CAP_SETGID | 1<<unix.CAP_SETUID | 1<<unix.CAP_NET_BIND_SERVICE

// Agent is the agent's user if users are separate. The zero value is the user wire.AgentID.
type Agent struct {
	// Image is the agent's user in the image; nil: wire.AgentID.
	Image *wire.Account
	// Bare removes RootCapabilities from an agent that is user 0, because its programs run beside a verifier.
	Bare bool
}

// Account returns the agent's user and groups.
func (a Agent) Account() wire.Account {
	if a.Image == nil {
		return wire.Account{UID: wire.AgentID, GID: wire.AgentID}
	}

	return *a.Image
}

// IsRoot reports whether the agent is user 0 inside.
func (a Agent) IsRoot() bool { return a.Account().UID == 0 }

// VerifierID returns the verifier's user and group beside this agent.
func (a Agent) VerifierID() int { return a.Image.VerifierID() }

func (a Agent) user() *prestart.User {
	as := a.Account()

	u := &prestart.User{UID: as.UID, GID: as.GID, Groups: as.Groups}
	if a.IsRoot() && !a.Bare {
		u.Capabilities = RootCapabilities
	}

	return u
}

// Users maps names of users to ids. If users are not separate, every process has sandboxd's user.
type Users struct {
	separate bool
	agent    Agent
}

// Find returns the user of that name; nil if users are not separate.
func (u Users) Find(name string) (*prestart.User, error) {
	var found *prestart.User

	switch name {
	case "":
		found = u.agent.user()
	case wire.VerifierUser:
		// /proc shows all processes to sandboxd's group.
		found = &prestart.User{
			UID:          u.agent.VerifierID(),
			GID:          u.agent.VerifierID(),
			Groups:       []int{os.Getgid()},
			Capabilities: VerifierCapabilities,
		}
	default:
		return nil, fault.Field("user", "%q must be empty or %q", name, wire.VerifierUser)
	}

	if !u.separate {
		return nil, nil
	}

	return found, nil
}

// Run runs f on a thread with the user's file system ids, so that every path is opened with that user's
// rights, whatever sandboxd's are. An error means that f was not run.
func (u Users) Run(user *prestart.User, f func()) error {
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

// setThread sets the user and the group of this thread's file accesses. A file system user other than 0
// also removes every capability over files from the thread; 0 restores sandboxd's, which an agent that is 0
// has too.
func setThread(uid, gid int) bool {
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
	// The calls do not report a refusal; an impossible id returns the current one.
	nowUID, _ := unix.SetfsuidRetUid(-1)
	nowGID, _ := unix.SetfsgidRetGid(-1)

	return nowUID == uid && nowGID == gid
}

// restoreThread restores the thread for the runtime. A thread that cannot be restored stays locked, and
// ends with its goroutine.
func restoreThread() {
	if setThread(os.Getuid(), os.Getgid()) {
		runtime.UnlockOSThread()
		return
	}

	panic(http.ErrAbortHandler)
}
