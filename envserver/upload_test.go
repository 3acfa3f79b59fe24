package envserver_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/store"
)

func uploadsIn(t testing.TB) store.Uploads {
	t.Helper()
	s, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return store.Uploads{Store: s, Keep: time.Hour}
}

// Only the token that uploaded a file has access to it. Rollouts refer to a file by its digest.
func TestUploadsOverREST(t *testing.T) {
	t.Parallel()
	r := shared(t, func(o *envserver.Options) { o.Uploads = uploadsIn(t) })
	sum := sha256.Sum256([]byte("data"))
	digest := hex.EncodeToString(sum[:])
	path := "/uploads/" + digest
	status, _, _ := r.do("GET", path, "", "Authorization", alice)
	require.Equal(t, http.StatusNotFound, status)
	status, _, out := r.do("PUT", path, "other", "Authorization", alice)
	require.Equal(t, http.StatusUnprocessableEntity, status, out)
	status, _, out = r.do("PUT", path, "data", "Authorization", alice)
	require.Equal(t, http.StatusOK, status, out)
	require.JSONEq(t, fmt.Sprintf(`{"sha256":%q,"size":4}`, digest), out)
	status, _, out = r.do("GET", path, "", "Authorization", alice)
	require.Equal(t, http.StatusOK, status, out)

	for _, other := range []string{bob, admin} {
		status, _, _ = r.do("GET", path, "", "Authorization", other)
		require.Equal(t, http.StatusNotFound, status)
	}

	status, _, out = r.do("PUT", "/uploads/x", "data", "Authorization", alice)
	require.Equal(t, http.StatusUnprocessableEntity, status, out)

	body := func(uploads string) string {
		return `{"instruction":"x","endpoint":"vllm","rollout_id":"r1","uploads":` + uploads + `}`
	}
	for _, wrong := range []string{`{"a":"x"}`, `{"../../../a":"` + digest + `"}`, `{"a":"` + digest + `","./a":"` + digest + `"}`} {
		status, _, out = r.do("POST", "/rollouts", body(wrong), "Authorization", alice)
		require.Equal(t, http.StatusUnprocessableEntity, status, out)
	}

	status, _, out = r.do("POST", "/rollouts", body(`{"a":"`+digest+`"}`), "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)

	spec, _ := r.fake.spec("r1")
	require.Equal(t, map[string]string{"a": digest}, spec.Task.Uploads)
}
