package temporalx_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
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

// An activity that was canceled, as by an abort, is no error in the log; one that fails is.
func TestLogOfActivities(t *testing.T) {
	t.Parallel()

	for level, err := range map[string]error{
		"DEBUG": context.Canceled,
		"ERROR": fault.New(fault.Unavailable, "no answer"),
	} {
		var text strings.Builder

		options, optionsErr := temporalx.ClientOptions(temporalx.Options{
			Key:    testKey(t, "a"),
			Logger: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})),
		})
		require.NoError(t, optionsErr)

		var suite testsuite.WorkflowTestSuite
		suite.SetLogger(options.Logger)

		env := suite.NewTestActivityEnvironment()
		step := func(context.Context) error { return err }
		env.RegisterActivityWithOptions(step, activity.RegisterOptions{Name: "step"})

		_, ended := env.ExecuteActivity("step")
		require.Error(t, ended)
		require.Regexp(t, "level="+level+` msg="Activity error."`, text.String())
	}
}
