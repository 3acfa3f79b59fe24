package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/sandbox/driver"
)

// Data checks that the data folder is writable or can be created.
func Data(dir string) Check {
	return func(context.Context) []driver.Finding {
		f := driver.Finding{Name: "data folder", Detail: dir}
		if err := writable(dir); err != nil {
			f.Level, f.Detail = driver.Fail, err.Error()
			f.Fix = "make it writable for this user, or set another folder with --data or ROLLOUTD_DATA"
		}
		return []driver.Finding{f}
	}
}

// writable checks the nearest existing folder; missing folders below it are created at start.
func writable(dir string) error {
	full, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	info, err := os.Stat(full)
	for errors.Is(err, os.ErrNotExist) {
		full = filepath.Dir(full)
		info, err = os.Stat(full)
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is not a folder", full)
	}
	if err := unix.Access(full, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s is not writable: %w", full, err)
	}
	return nil
}
