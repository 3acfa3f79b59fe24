package process

import (
	"net/http"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/child"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// VerifierCapabilities let the verifier read and change the agent's files whatever their modes, as a grader run by root would: an
// honest submission may hold files of mode 0600, and a script may compile or patch in the workdir.
const VerifierCapabilities = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER

// Users maps the names of users to ids. Where they are not separate every process runs as the user of sandboxd.
type Users struct{ separate bool }

// Find returns the user of that name, nil where users are not separate.
func (u Users) Find(name string) (*child.User, error) {
	var found *child.User
	switch name {
	case "":
		found = &child.User{UID: wire.AgentID, GID: wire.AgentID}
	case wire.VerifierUser:
		// Group 0 is the one that /proc shows all processes to.
		found = &child.User{UID: wire.VerifierID, GID: wire.VerifierID, Groups: []int{0}, Capabilities: VerifierCapabilities}
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
// 0 also takes every capability over files from the thread.
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
	if setThread(0, 0) {
		runtime.UnlockOSThread()
		return
	}
	panic(http.ErrAbortHandler)
}
