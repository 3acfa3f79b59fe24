package limits

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"

	"github.com/rolloutd/rolloutd/internal/durable"
	"github.com/rolloutd/rolloutd/internal/fault"
)

const (
	// maxWeights bounds the endpoints with named weights.
	maxWeights = 1024
	// maxWeightsFile bounds their file, in bytes.
	maxWeightsFile = 1 << 20
)

// weights are the names that trainers gave to the weights behind upstreams, by upstream name. The file
// keeps them across restarts of the gateway.
type weights struct {
	// "": no file
	file string
	of   map[string]string
}

func loadWeights(file string) (weights, error) {
	w := weights{file, map[string]string{}}
	if file == "" {
		return w, nil
	}

	raw, err := durable.Read(file)
	if errors.Is(err, os.ErrNotExist) {
		return w, nil
	}

	if err == nil && len(raw) > maxWeightsFile {
		err = errors.New("larger than it can be")
	}

	if err == nil {
		err = json.Unmarshal(raw, &w.of)
	}

	if err != nil {
		return w, fmt.Errorf("names of weights in %s: %w", file, err)
	}

	return w, nil
}

// set names the weights of an upstream, and returns when the name is on disk.
func (w weights) set(upstream, version string) error {
	before, known := w.of[upstream]
	if before == version {
		return nil
	}

	if !known && len(w.of) >= maxWeights {
		return fault.New(fault.Exhausted, "the weights of %d endpoints are named, which is the maximum", maxWeights)
	}

	w.of[upstream] = version
	if err := w.save(); err != nil {
		if w.of[upstream] = before; !known {
			delete(w.of, upstream)
		}

		return fault.Wrap(fault.Internal, err, "keep the name of the weights")
	}

	return nil
}

// save replaces the file.
func (w weights) save() error {
	if w.file == "" {
		return nil
	}

	raw, err := json.Marshal(w.of)
	if err != nil {
		return err
	}

	return durable.Replace(w.file, raw)
}

// ValidVersion reports whether version is a valid name of weights. Two dots separate the versions of a
// reply that spans several.
func ValidVersion(version string) bool {
	return regexp.MustCompile(`^[\w.:/@+=-]{1,128}$`).MatchString(version) && !strings.Contains(version, "..")
}

// Load sets the name of an upstream's weights from now on. Requests in flight then span two versions.
func (g *Registry) Load(name, version string) error {
	if !ValidVersion(version) {
		return fault.Field("version",
			"must be 1 to 128 letters, digits and characters of _.:/@+=- without two dots in a row")
	}

	var err error

	_, unknown := g.ForNamed(name, func(a *Admission) {
		if err == nil {
			if err = g.weights.set(name, version); err == nil {
				a.load(version)
			}
		}
	})

	return errors.Join(unknown, err)
}

func (a *Admission) load(version string) {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.weights = version
}

// Weights returns the name that a trainer gave to the upstream's weights; "": none.
func (a *Admission) Weights() string {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.weights
}
