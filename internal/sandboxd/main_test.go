package sandboxd_test

import (
	"os"
	"testing"

	"github.com/rolloutd/rolloutd/internal/sandboxd/prestart"
)

// TestMain lets this binary act as the sandboxd binary that starts processes.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == prestart.Command {
		_ = prestart.Run()

		os.Exit(1)
	}

	os.Exit(m.Run())
}
