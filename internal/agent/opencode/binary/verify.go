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

// verified records that a binary with this size and time had the right checksum. Hashing 185 MB for every
// rollout would cost more than the rest of its start.
type verified struct {
	SHA256  string `json:"sha256"`
	Size    int64  `json:"size"`
	ModTime int64  `json:"mtime_ns"`
}

func stamp(dir, sum string) (verified, error) {
	info, err := os.Stat(filepath.Join(dir, File))
	if err != nil {
		return verified{}, err
	}

	return verified{sum, info.Size(), info.ModTime().UnixNano()}, nil
}

// remembered reports whether the folder is complete and has the binary that was verified.
func remembered(dir, sum string) bool {
	text, err := os.ReadFile(filepath.Join(dir, programs.VerifiedFile))
	if err != nil {
		return false
	}

	var was verified
	if json.Unmarshal(text, &was) != nil {
		return false
	}

	is, err := stamp(dir, sum)
	if err != nil || is != was {
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
		return fault.New(
			fault.Conflict,
			"opencode %s at %s is not the pinned file: its sha256 must be %s, got %s; remove it to fetch it again",
			rel.Version,
			path,
			rel.SHA256,
			sum,
		)
	}

	if err := os.Chmod(path, 0o755); err != nil {
		return fmt.Errorf("verify opencode: %w", err)
	}

	seen, err := stamp(dir, sum)
	if err != nil {
		return fmt.Errorf("verify opencode: %w", err)
	}

	text, err := json.Marshal(seen)
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
