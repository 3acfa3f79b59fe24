package sandboxd_test

import (
	"os"
	"testing"

	"github.com/rolloutd/rolloutd/internal/sandboxd/child"
)

// TestMain lets this binary act as the sandboxd binary that starts processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == child.Command {
		_ = child.Run()
		os.Exit(1)
	}
	os.Exit(m.Run())
}
