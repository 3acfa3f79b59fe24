package e2b_test

import (
	"testing"

	"github.com/rolloutd/rolloutd/internal/driver/e2b/e2btest"
	"github.com/rolloutd/rolloutd/internal/testkit/jsclient"
)

// E2B's own client accepts the fake service of these tests.
func TestOfficialClient(t *testing.T) {
	t.Parallel()
	s := e2btest.ForTest(t)
	jsclient.Run(t, jsclient.E2B, "testdata/sdk.mjs", s.URL, s.Key, e2btest.Template)
}
