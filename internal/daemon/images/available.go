package images

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// maxChecked bounds the images that Unavailable looks for: each may be a request to a registry.
const maxChecked = 20

// Missing is an image of a task that the host neither has nor can pull.
type Missing struct {
	Image string
	Why   error
}

// Unavailable looks for the images of the tasks of the configured task sets, up to maxChecked, on this host
// and in their registries. It returns how many it looked for. Images of other backends than local, and
// tasks that cannot be read, are left out.
func Unavailable(ctx context.Context, c config.Config, log *slog.Logger) (looked int, missing []Missing) {
	names := imagesOfTasks(c)
	if len(names) == 0 || !slices.Contains(c.Sandbox.BackendNames(), rollout.DefaultBackend) {
		return 0, nil
	}
	// the check creates nothing in the data folder
	if _, err := os.Stat(c.ImagesDir()); err != nil {
		dir, err := os.MkdirTemp("", "rolloutd-images-")
		if err != nil {
			return 0, []Missing{{names[0], err}}
		}
		defer os.RemoveAll(dir)

		c.Data = dir
	}

	for _, name := range names {
		if err := available(ctx, c, log, name); err != nil {
			missing = append(missing, Missing{name, err})
		}
	}

	return len(names), missing
}

func available(ctx context.Context, c config.Config, log *slog.Logger, name string) error {
	store, err := Open(c, log)
	if err != nil {
		return err
	}

	if _, err := store.Find(name); !fault.Is(err, fault.NotFound) {
		return err
	}

	if err := mayPull(c.Sandbox.Images.Registries, name); err != nil {
		return err
	}

	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()

	return store.Check(ctx, name)
}

// imagesOfTasks lists images of tasks of the backend local, without duplicates.
func imagesOfTasks(c config.Config) []string {
	found := map[string]bool{}

	for _, set := range slices.Sorted(maps.Keys(c.TaskSets)) {
		s, err := taskset.Open(c.TaskSets[set].Path)
		if err != nil {
			// a server with this task set does not start
			continue
		}

		for i := 0; i < s.Len() && len(found) < maxChecked; i++ {
			for _, name := range localImages(s, i) {
				found[name] = true
			}
		}
		// it was read only
		_ = s.Close()
	}

	return slices.Sorted(maps.Keys(found))
}

// localImages returns the image of a task and that of its verifier.
func localImages(s *taskset.Set, i int) []string {
	t, err := s.Task(i)
	if err != nil {
		return nil
	}

	if backend, _ := t.Sandbox["backend"].(string); backend != "" && backend != rollout.DefaultBackend {
		return nil
	}

	var names []string

	for _, of := range []map[string]any{t.Sandbox, t.Verifier} {
		if name, _ := of["image"].(string); name != "" {
			names = append(names, name)
		}
	}

	return names
}
