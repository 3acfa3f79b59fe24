package executor_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver/internal/executor"
)

func TestUnauthenticated(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ path, authorization, want string }{
		{"/executor/execute", "", "Missing Authorization header"},
		{"/executor/execute", "Basic dTpw", "Invalid Authorization header"},
		{"/executor/execute", "bearer x", "Invalid token"},
		{"/executor", "", "Missing Authorization header"},
		{"/executors", "", ""},
		{"/rollouts", "Bearer x", ""},
	} {
		r := httptest.NewRequest(http.MethodPost, c.path, http.NoBody)
		if c.authorization != "" {
			r.Header.Set("Authorization", c.authorization)
		}

		require.Equal(t, c.want, executor.Unauthenticated(r), c)
	}
}
