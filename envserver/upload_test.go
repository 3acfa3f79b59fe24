package envserver_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
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

// zeros returns a reader of n zero bytes.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// An upload is streamed to the store. The test is not parallel because it measures the allocations of the process.
func TestMemoryOfUploads(t *testing.T) {
	srv, err := envserver.New(envserver.Options{
		Rollouts: newFake(), Resolve: catalog.New(func(string) string { return "" }, egress.Policy{}).Resolve, Seal: strings.ToUpper, Uploads: uploadsIn(t),
	})
	require.NoError(t, err)
	const size = 64 << 20
	sum := sha256.New()
	_, err = io.Copy(sum, zeros(size))
	require.NoError(t, err)
	took, out := allocated(t, srv, httptest.NewRequest(http.MethodPut, "http://localhost/uploads/"+hex.EncodeToString(sum.Sum(nil)), zeros(size)))
	require.Equal(t, http.StatusOK, out.status)
	t.Logf("PUT %.1f KiB for a file of %d MiB", float64(took)/1024, size>>20)
	require.Less(t, took, uint64(2<<20))
	r := httptest.NewRequest(http.MethodPut, "http://localhost/uploads/"+strings.Repeat("0", 64), bytes.NewReader(nil))
	r.ContentLength = rollout.MaxUploadBytes + 1
	_, out = allocated(t, srv, r)
	require.Equal(t, http.StatusRequestEntityTooLarge, out.status)
}
