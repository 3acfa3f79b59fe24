package temporalx_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

func TestClientOptionsFromTheStandardSettings(t *testing.T) {
	t.Parallel()

	env := map[string]string{
		"TEMPORAL_ADDRESS":   "temporal.example:7233",
		"TEMPORAL_NAMESPACE": "rl",
		"TEMPORAL_API_KEY":   "k",
	}
	options, err := temporalx.ClientOptions(temporalx.Options{Key: testKey(t, "a"), Env: env})
	require.NoError(t, err)
	require.Equal(t, "temporal.example:7233", options.HostPort)
	require.Equal(t, "rl", options.Namespace)
	require.NotNil(t, options.Credentials)
	require.NotNil(t, options.ConnectionOptions.TLS, "an API key must not travel in the clear")

	options, err = temporalx.ClientOptions(temporalx.Options{
		Key:       testKey(t, "a"),
		Env:       env,
		Address:   "127.0.0.1:1",
		Namespace: "x",
	})
	require.NoError(t, err)
	require.Equal(t, "127.0.0.1:1", options.HostPort)
	require.Equal(t, "x", options.Namespace)
}

func TestClientOptionsRefuseBadSettings(t *testing.T) {
	t.Parallel()

	_, err := temporalx.ClientOptions(temporalx.Options{Env: map[string]string{
		"TEMPORAL_TLS_CLIENT_CERT_PATH": "/nosuch",
		"TEMPORAL_TLS_CLIENT_KEY_PATH":  "/nosuch",
	}})
	require.Equal(t, fault.Invalid, fault.KindOf(err))
}

// A failure's message is encrypted like a payload and is restored unchanged.
func TestFailureMessagesAreEncrypted(t *testing.T) {
	t.Parallel()
	converter := temporalx.FailureConverter(testKey(t, "a"))
	f := converter.ErrorToFailure(errors.New("canary in a message"))
	stored, err := proto.Marshal(f)
	require.NoError(t, err)
	require.NotContains(t, string(stored), "canary")
	require.ErrorContains(t, converter.FailureToError(f), "canary in a message")
}

func TestDialNamesTheAddressThatDoesNotAnswer(t *testing.T) {
	t.Parallel()

	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()

	_, err := temporalx.Dial(ctx, temporalx.Options{Key: testKey(t, "a"), Address: "127.0.0.1:1"})
	require.Equal(t, fault.Unavailable, fault.KindOf(err))
	require.ErrorContains(t, err, "127.0.0.1:1")
}
