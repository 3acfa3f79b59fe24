package rollout

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// uploadDigest is how an upload is named.
var uploadDigest = regexp.MustCompile(`^[0-9a-f]{64}$`)

// CheckUpload refuses a digest that is not a SHA-256 in hex.
func CheckUpload(digest string) error {
	if !uploadDigest.MatchString(digest) {
		return fault.Field("uploads", "must be the SHA-256 of an uploaded file as 64 lower-case hex digits, got %q",
			digest)
	}

	return nil
}

// validUploads refuses uploads that cannot be staged beside the other files of the task.
//
//workflowcheck:ignore
func (t Task) validUploads() error {
	taken := map[string]bool{}
	if len(t.Uploads) > 0 {
		taken = t.paths()
	}

	for _, name := range slices.Sorted(maps.Keys(t.Uploads)) {
		full, err := FilePath(name)
		if err != nil {
			return err
		}

		if err := CheckUpload(t.Uploads[name]); err != nil {
			return err
		}

		if taken[full] {
			return fault.Field("uploads", "%q is given twice", name)
		}

		taken[full] = true
	}

	return nil
}

// paths are the places of the task's files and of the verifier's.
//
//workflowcheck:ignore
func (t Task) paths() map[string]bool {
	all := map[string]bool{}
	if t.Verifier.Script != "" {
		all[TestScript] = true
	}

	for name := range t.Files {
		// validated before
		full, _ := FilePath(name)
		all[full] = true
	}

	for name := range t.Verifier.Files {
		if rel, err := TestFileName(name); err == nil {
			all[path.Join(TestsDir, rel)] = true
		}
	}

	return all
}

// UploadKey is where an upload is stored; owner is the hash of the owner's name in hex.
func UploadKey(owner, digest string) string {
	return strings.Join([]string{"uploads", owner, digest}, "/")
}
