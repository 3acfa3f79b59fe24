package process

import (
	"io"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// proc opens /proc, once and before programs of the agent run: the path leads through the root folder, which an agent that
// is root of its image can close to sandboxd, and then no process could be listed or killed.
var proc = sync.OnceValues(func() (int, error) {
	return unix.Open("/proc", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
})

// openProc opens a file or a folder of /proc; the name is relative to it.
func openProc(name string) (*os.File, error) {
	folder, err := proc()
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc", Err: err}
	}

	fd, err := unix.Openat(folder, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: "/proc/" + name, Err: err}
	}

	return os.NewFile(uintptr(fd), "/proc/"+name), nil
}

// readProc reads a file of /proc.
func readProc(name string) ([]byte, error) {
	f, err := openProc(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	return io.ReadAll(f)
}

// statProc returns the status of the file to which a name of /proc leads.
func statProc(name string) (st unix.Stat_t, err error) {
	folder, err := proc()
	if err == nil {
		err = unix.Fstatat(folder, name, &st, 0)
	}

	return st, err
}

// readlinkProc reads a link of /proc.
func readlinkProc(name string, into []byte) (int, error) {
	folder, err := proc()
	if err != nil {
		return 0, err
	}

	return unix.Readlinkat(folder, name, into)
}

// namesInProc lists a folder of /proc.
func namesInProc(name string) ([]string, error) {
	dir, err := openProc(name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()

	return dir.Readdirnames(-1)
}

// filesOfThreads reads the file of that name of each thread of a process. It skips a thread that ends meanwhile.
func filesOfThreads(pid int, name string) [][]byte {
	folder := strconv.Itoa(pid) + "/task"
	// no thread is left: there are no files
	threads, _ := namesInProc(folder)

	var all [][]byte

	for _, thread := range threads {
		if content, err := readProc(folder + "/" + thread + "/" + name); err == nil {
			all = append(all, content)
		}
	}

	return all
}
