package daemon_test

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/store/s3test"
)

// A process whose store does not work does not start. The error has the reason and not the secret.
func TestStartNeedsTheBucket(t *testing.T) { // not parallel: it sets variables
	server := s3test.Start(t)
	t.Setenv("AWS_ACCESS_KEY_ID", s3test.AccessKey)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")

	start := func(bucket, secret string) error {
		t.Setenv("AWS_SECRET_ACCESS_KEY", secret)

		c := config.Defaults()
		c.Data, c.Telemetry.Listen = filepath.Join(t.TempDir(), "data"), ""
		c.Store.URL = server.URL(bucket)

		d := daemon.New(daemon.Options{Config: c, Roles: daemon.Roles{Model: true}, Log: slog.New(slog.DiscardHandler)})
		for _, part := range d.Tiers() {
			if part.Name != "data folder" {
				continue
			}

			var parts tier.Parts

			err := part.Start(t.Context(), &parts)

			return errors.Join(err, parts.Stop(t.Context()))
		}

		require.Fail(t, "no data folder")

		return nil
	}
	require.NoError(t, start(s3test.Bucket, s3test.SecretKey))
	err := start(s3test.Bucket, "x"+s3test.SecretKey)
	require.ErrorContains(t, err, "store.url (ROLLOUTD_STORE_URL): the store refuses the credentials")
	require.NotContains(t, err.Error(), s3test.SecretKey)
	require.ErrorContains(t, start("another-bucket", s3test.SecretKey), "the bucket does not exist")
}
