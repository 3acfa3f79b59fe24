package timerslack

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Set sets the slack of every thread of this process. A thread begins with the slack of the one that
// creates it, so later threads have it too, and so have child processes. In a program that is linked with C
// it needs CAP_SYS_NICE.
func Set(slack time.Duration) error {
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_PRCTL, unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0)
	switch errno {
	case 0:
		return nil
	case syscall.ENOTSUP: // the runtime does not know all threads of a program with C
		return setByFile(slack)
	default:
		return fmt.Errorf("set timer slack: %w", errno)
	}
}

// setByFile sets the slack of each thread by its file. It repeats until all threads have the slack, since a
// thread without it may start others.
func setByFile(slack time.Duration) error {
	const passes = 100

	want := strconv.FormatInt(slack.Nanoseconds(), 10)

	for range passes {
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("set timer slack: %w", err)
		}

		changed := false

		for _, thread := range threads {
			one, err := setThread(filepath.Join("/proc", thread.Name(), "timerslack_ns"), want)
			if err != nil {
				return fmt.Errorf("set timer slack: %w", err)
			}

			changed = changed || one
		}

		if !changed {
			return nil
		}
	}

	return errors.New("set timer slack: threads start faster than they are found")
}

// setThread writes the slack of a thread, unless it has it or is gone.
func setThread(file, want string) (changed bool, err error) {
	has, err := os.ReadFile(file)
	if err == nil && strings.TrimSpace(string(has)) == want {
		return false, nil
	}

	if err == nil {
		err = os.WriteFile(file, []byte(want), 0)
	}

	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return false, nil
	}

	return err == nil, err
}
