package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/driver"
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

// Disk checks that the disk of the data folder has room: rollouts do not start with less than minFreeMiB,
// or without inodes.
func Disk(dir string, minFreeMiB int) Check {
	return func(context.Context) []driver.Finding {
		full, err := existing(dir)
		if err != nil {
			// Data reports it
			return nil
		}

		var fs unix.Statfs_t
		if err := unix.Statfs(full, &fs); err != nil {
			return []driver.Finding{{Name: "disk", Level: driver.Fail, Detail: fmt.Sprintf("%s: %v", full, err)}}
		}

		free := int64(fs.Bavail) * fs.Bsize >> 20

		f := driver.Finding{
			Name:   "disk",
			Detail: fmt.Sprintf("%d MiB free at %s", free, full),
			Fix:    "free space, or set another folder with --data or ROLLOUTD_DATA",
		}
		switch {
		case free < int64(minFreeMiB):
			f.Level, f.Detail = driver.Fail, f.Detail+fmt.Sprintf("; rollouts need %d (store.min_free_mib)", minFreeMiB)
		case fs.Files > 0 && fs.Ffree < fs.Files/100:
			f.Level, f.Detail = driver.Fail, f.Detail+fmt.Sprintf(", but only %d of %d inodes", fs.Ffree, fs.Files)
		}

		return []driver.Finding{f}
	}
}

// Store checks a store: it writes a small blob, reads it and deletes it, and looks whether rollouts have room.
func Store(url string, check func(context.Context) error) Check {
	return func(ctx context.Context) []driver.Finding {
		f := driver.Finding{Name: "store", Detail: url}

		err := check(ctx)
		switch {
		case err == nil:
		case !strings.Contains(url, "://"):
			f.Level, f.Detail, f.Fix = driver.Fail, err.Error(), "make the folder writable for this user and free space, or set another one with store.url (ROLLOUTD_STORE_URL)"
		default:
			f.Level, f.Detail = driver.Fail, err.Error()
			f.Fix = "set store.url (ROLLOUTD_STORE_URL) and the credentials of the bucket, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
		}

		return []driver.Finding{f}
	}
}

// Images checks that the host has, or can pull, the images of the configured tasks. look returns how many
// there are, and why some cannot be had.
func Images(look func(context.Context) (looked int, missing []error)) Check {
	return func(ctx context.Context) []driver.Finding {
		looked, missing := look(ctx)

		var all []driver.Finding
		for _, err := range missing {
			all = append(all, driver.Finding{
				Name:   "image of a task",
				Level:  driver.Fail,
				Detail: err.Error(),
				Fix:    "rolloutd image pull or rolloutd image import, or set sandbox.images.registries and sandbox.images.mirrors",
			})
		}

		if looked > 0 && len(all) == 0 {
			all = append(all, driver.Finding{
				Name:   "images of tasks",
				Detail: fmt.Sprintf("%d, all on this host or in their registries", looked),
			})
		}

		return all
	}
}

// Key checks that the encryption key of this machine is that of the deployment in the store. check describes the key.
func Key(check func(context.Context) (string, error)) Check {
	return func(ctx context.Context) []driver.Finding {
		description, err := check(ctx)

		f := driver.Finding{Name: "encryption key", Detail: description}
		if err != nil {
			f.Level, f.Detail = driver.Fail, err.Error()
			f.Fix = "give every role of the deployment the same key and the same store"
		}

		return []driver.Finding{f}
	}
}

// existing is the nearest existing folder; missing folders below it are created at start.
func existing(dir string) (string, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}

	info, err := os.Stat(full)
	for errors.Is(err, os.ErrNotExist) {
		full = filepath.Dir(full)
		info, err = os.Stat(full)
	}

	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", full)
	}

	return full, err
}

// writable checks the nearest existing folder.
func writable(dir string) error {
	full, err := existing(dir)
	if err != nil {
		return err
	}

	if err := unix.Access(full, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("%s is not writable: %w", full, err)
	}

	return nil
}

// Warm reports how many sandboxes of this machine wait for a rollout, and the configured maximum.
func Warm(data string, most int) Check {
	return func(context.Context) []driver.Finding {
		f := driver.Finding{
			Name:   "warm sandboxes",
			Detail: "none (sandbox.warm is 0): each rollout waits for the start of its agent",
		}

		if most > 0 {
			// the pattern is well-formed
			waiting, _ := filepath.Glob(filepath.Join(data, "sandboxes", "warm-*"))
			f.Detail = fmt.Sprintf(
				"%d of at most %d for each backend (sandbox.warm), some 350 MiB each with OpenCode and 3 MiB without an agent; they start after the first rollout",
				len(waiting),
				most,
			)
		}

		return []driver.Finding{f}
	}
}
