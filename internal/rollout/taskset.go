package rollout

import (
	"regexp"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// SetRef is a stored set of tasks.
type SetRef struct {
	// key in the store
	Key string `json:"key"`

	// tasks
	Len int `json:"len"`
}

// TaskRef is one task of a stored set.
type TaskRef struct {
	Set   SetRef `json:"set"`
	Index int    `json:"index"`
}

var setKey = regexp.MustCompile(`^tasksets/[0-9a-f]{64}$`)

// SetKey is where a set of tasks is stored; digest is its SHA-256 in hex.
func SetKey(digest string) string { return "tasksets/" + digest }

// Validate refuses a reference that names no task of a stored set. The error's kind is Invalid.
func (t TaskRef) Validate() error {
	if !setKey.MatchString(t.Set.Key) || t.Index < 0 || t.Index >= t.Set.Len {
		return fault.Field("tasks", "must name tasks of a stored task set, got task %d of %q", t.Index, t.Set.Key)
	}

	return nil
}
