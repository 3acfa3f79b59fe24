package runas

import (
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The settings of a repository name programs that git runs by a shell: filters, drivers of diffs, hooks and others, for files
// that .gitattributes chooses. Beside the verifier git must run none of the work's. The commands that only read or change
// files need no other program, so they may not start one.

// gitAlone are commands of git that need no other program.
var gitAlone = []string{
	"add", "apply", "blame", "cat-file", "check-attr", "check-ignore", "checkout", "describe", "diff", "diff-files", "diff-index",
	"diff-tree", "format-patch", "grep", "hash-object", "log", "ls-files", "ls-tree", "merge-base", "merge-file", "name-rev",
	"read-tree", "reset", "restore", "rev-list", "rev-parse", "shortlog", "show", "show-ref", "status", "switch", "update-index",
}

// gitValues are options of git itself that have a value in the next argument.
var gitValues = []string{"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--super-prefix", "--config-env"}

// readsRepositoryOfWork reports whether a program of the verifier's is one of gitAlone in a repository that may be the work's.
func (s surroundings) readsRepositoryOfWork(argv, env []string) bool {
	if filepath.Base(argv[0]) != "git" || !slices.Contains(gitAlone, gitCommand(argv[1:])) {
		return false
	}

	named := slices.Concat(argv[1:], []string{s.dir})

	for _, e := range env {
		if strings.HasPrefix(e, "GIT_DIR=") || strings.HasPrefix(e, "GIT_WORK_TREE=") {
			named = append(named, e)
		}
	}

	// --git-dir=FOLDER
	return slices.ContainsFunc(named, func(text string) bool { return s.inWork(s.resolve(text[strings.Index(text, "=")+1:])) })
}

// gitCommand returns the command among git's arguments; "": none.
func gitCommand(args []string) string {
	for i := 0; i < len(args); i++ {
		switch {
		case slices.Contains(gitValues, args[i]):
			i++
		case !strings.HasPrefix(args[i], "-"):
			return args[i]
		}
	}

	return ""
}

// Parts of the kernel's struct seccomp_data, and calls of amd64 that package unix has on that architecture alone.
const (
	callOffset     = 0
	firstArgOffset = 16
	forkOfAMD64    = 57
	vforkOfAMD64   = 58
)

// refuseChildren keeps this thread, and the program that it executes, from starting processes. Threads are allowed. The
// sandbox's filter refuses clone3 and calls by another architecture's numbers.
func refuseChildren() error {
	const (
		load, ret         = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_RET | unix.BPF_K
		ifEqual, ifHasBit = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
		refuse            = unix.SECCOMP_RET_ERRNO | uint32(unix.EAGAIN)
	)

	filter := []unix.SockFilter{
		{Code: load, K: callOffset},
		{Code: ifEqual, Jf: 4, K: unix.SYS_CLONE},
		{Code: load, K: firstArgOffset},
		{Code: ifHasBit, Jf: 1, K: unix.CLONE_THREAD},
		{Code: ret, K: unix.SECCOMP_RET_ALLOW},
		{Code: ret, K: refuse},
	}
	if runtime.GOARCH == "amd64" {
		filter = append(filter,
			unix.SockFilter{Code: ifEqual, Jt: 1, K: forkOfAMD64}, unix.SockFilter{Code: ifEqual, Jf: 1, K: vforkOfAMD64}, unix.SockFilter{Code: ret, K: refuse})
	}

	filter = append(filter, unix.SockFilter{Code: ret, K: unix.SECCOMP_RET_ALLOW})
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}

	// the filter is this thread's, which executes the program
	runtime.LockOSThread()

	_, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}

	return nil
}
