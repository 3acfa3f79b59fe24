package binary

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/rolloutd/rolloutd/internal/agent/programs"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// verifiedStamp records that a binary with this size and time had the right checksum. Hashing 185 MB for every
// rollout would cost more than the rest of its start.
type verifiedStamp struct {
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
}

// stampOf returns the stamp of the binary in a folder, which has the checksum.
func stampOf(dir, sum string) (verifiedStamp, error) {
	info, err := os.Stat(filepath.Join(dir, File))
	if err != nil {
		return verifiedStamp{}, err
	}

	return verifiedStamp{sum, info.Size(), info.ModTime().UnixNano()}, nil
}

// isVerified reports whether the folder is complete and has the binary that was verified.
func isVerified(dir, sum string) bool {
	text, err := os.ReadFile(filepath.Join(dir, programs.VerifiedFile))
	if err != nil {
		return false
	}

	var stored verifiedStamp
	if json.Unmarshal(text, &stored) != nil {
		return false
	}

	stamp, err := stampOf(dir, sum)
	if err != nil || stamp != stored {
		return false
	}

	_, err = os.Stat(filepath.Join(dir, ModelsFile))

	return err == nil
}

// verify checks the binary in dir and completes the folder.
func verify(dir string, rel Release) error {
	path := filepath.Join(dir, File)

	sum, err := hash(path)
	if err != nil {
		return fmt.Errorf("verify opencode: %w", err)
	}

	if sum != rel.SHA256 {
		return fault.New(fault.Conflict,
			"opencode %s at %s is not the pinned file: its sha256 must be %s, got %s; remove it to fetch it again",
			rel.Version, path, rel.SHA256, sum)
	}

	if err := os.Chmod(path, 0o755); err != nil {
		return fmt.Errorf("verify opencode: %w", err)
	}

	stamp, err := stampOf(dir, sum)
	if err != nil {
		return fmt.Errorf("verify opencode: %w", err)
	}

	text, err := json.Marshal(stamp)
	if err != nil {
		return err
	}

	if err := os.WriteFile(filepath.Join(dir, programs.VerifiedFile), text, 0o644); err != nil {
		return fmt.Errorf("verify opencode: %w", err)
	}

	models := filepath.Join(dir, ModelsFile)
	// regardless of the umask
	return errors.Join(os.WriteFile(models, NoModels(), 0o644), os.Chmod(models, 0o644))
}

func hash(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	// read only
	defer func() { _ = f.Close() }()

	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}

	return hex.EncodeToString(h.Sum(nil)), nil
}
