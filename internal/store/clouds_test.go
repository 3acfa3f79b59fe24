package store_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/store/azuretest"
	"github.com/rolloutd/rolloutd/internal/store/emulator"
	"github.com/rolloutd/rolloutd/internal/store/gcstest"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

// cloud is a kind of bucket.
type cloud struct {
	name string

	// a bucket that a server has at its start
	bucket string
	start  func(*testing.T) bucketServer
}

// bucketServer is a server of buckets behind a listener that can fail.
type bucketServer struct {
	*emulator.Proxy

	// the URL that open takes
	url func(bucket string) string
}

// allClouds enables the tests with servers that take a minute to build and install.
const allClouds = "ROLLOUTD_TEST_STORES"

func clouds() []cloud {
	all := []cloud{{"s3", s3test.Bucket, func(t *testing.T) bucketServer {
		t.Helper()
		s := s3test.Start(t)

		return bucketServer{s.Proxy, func(bucket string) string { return s.URL(bucket) + "&profile=right" }}
	}}}
	if os.Getenv(allClouds) == "" {
		return all
	}

	return append(all, cloud{"gcs", gcstest.Bucket, func(t *testing.T) bucketServer {
		t.Helper()
		s := gcstest.Start(t)

		return bucketServer{s.Proxy, func(bucket string) string { return "gs://" + bucket + "#" + s.Address() }}
	}}, cloud{"azure", azuretest.Container, func(t *testing.T) bucketServer {
		t.Helper()
		s := azuretest.Start(t)

		return bucketServer{s.Proxy, s.URL}
	}})
}

func forEachCloud(t *testing.T, test func(*testing.T, cloud)) {
	t.Helper()

	for _, c := range clouds() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// emulated is locked while STORAGE_EMULATOR_HOST names a server.
var emulated sync.Mutex

// withServer makes a URL with a server after "#" usable until done is called. The driver of GCS reads the
// server from a variable when it opens a bucket.
func withServer(t *testing.T, url string) (bare string, done func()) {
	t.Helper()

	bare, address, found := strings.Cut(url, "#")
	if !found {
		return url, func() {}
	}

	emulated.Lock()
	require.NoError(
		t,
		os.Setenv("STORAGE_EMULATOR_HOST", address),
	) //nolint:usetesting // t.Setenv is not for parallel tests

	return bare, emulated.Unlock
}
