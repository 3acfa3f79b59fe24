package temporalx

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/trace"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/contrib/opentelemetry"
	"go.temporal.io/sdk/interceptor"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/grpc"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// Options select the Temporal cluster and the key. Zero fields mean Temporal's own defaults.
type Options struct {
	Key seal.Key
	// Env are the standard settings TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, TEMPORAL_TLS_*, TEMPORAL_API_KEY and so on. A
	// configuration file is read only when TEMPORAL_CONFIG_FILE names one, so that a developer's own file does not
	// connect a daemon to another cluster.
	Env map[string]string
	// Address and Namespace override Env if set.
	Address   string
	Namespace string

	// shown in histories; "": process id and host name
	Identity string

	// nil: silent
	Logger *slog.Logger

	// nil: none
	Metrics client.MetricsHandler

	// nil: the global provider's
	Tracer trace.Tracer
}

// Dial connects to Temporal. It fails with fault.Unavailable if no server answers.
func Dial(ctx context.Context, o Options) (client.Client, error) {
	options, err := ClientOptions(o)
	if err != nil {
		return nil, err
	}

	c, err := client.DialContext(ctx, options)
	if err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "reach Temporal at %q", options.HostPort)
	}

	return c, nil
}

// ClientOptions returns the options with which Dial connects. Workers of the client use the same interceptors.
func ClientOptions(o Options) (client.Options, error) {
	options, err := envconfig.LoadClientOptions(envconfig.LoadClientOptionsRequest{
		EnvLookup: environ(o.Env), DisableFile: o.Env["TEMPORAL_CONFIG_FILE"] == "",
	})
	if err != nil {
		return client.Options{}, fault.Wrap(fault.Invalid, err, "TEMPORAL_* settings")
	}

	tracing, err := opentelemetry.NewTracingInterceptor(opentelemetry.TracerOptions{
		Tracer:              o.Tracer,
		DisableQueryTracing: true,
	})
	if err != nil {
		return client.Options{}, fault.Wrap(fault.Internal, err, "tracing")
	}

	if o.Address != "" {
		options.HostPort = o.Address
	}

	if o.Namespace != "" {
		options.Namespace = o.Namespace
	}

	options.Identity = o.Identity
	// large payloads are compressed, and encrypted bytes do not compress
	options.ConnectionOptions.GrpcCompression = &client.GrpcCompressionNone{}
	options.ConnectionOptions.DialOptions = append(
		options.ConnectionOptions.DialOptions,
		grpc.WithChainUnaryInterceptor(endPrompt),
	)
	options.DataConverter = DataConverter(o.Key)
	options.FailureConverter = FailureConverter(o.Key)
	options.MetricsHandler = o.Metrics
	options.Logger = logger(o.Logger)
	options.Interceptors = []interceptor.ClientInterceptor{tracing, &Interceptor{}}

	return options, nil
}

// FailureConverter encrypts messages and stack traces of failures like payloads, since they quote tasks and agents.
func FailureConverter(key seal.Key) *temporal.DefaultFailureConverter {
	return temporal.NewDefaultFailureConverter(temporal.DefaultFailureConverterOptions{
		DataConverter: DataConverter(key), EncodeCommonAttributes: true,
	})
}

func logger(l *slog.Logger) sdklog.Logger {
	if l == nil {
		l = slog.New(slog.DiscardHandler)
	}

	return sdkLogger{sdklog.NewStructuredLogger(l)}
}

// sdkLogger logs the ends of what was canceled, such as the activity of an aborted rollout, as no errors.
type sdkLogger struct{ sdklog.Logger }

// With implements sdklog.WithLogger.
func (l sdkLogger) With(keyvals ...any) sdklog.Logger {
	return sdkLogger{sdklog.With(l.Logger, keyvals...)}
}

func (l sdkLogger) Error(msg string, keyvals ...any) {
	if slices.ContainsFunc(keyvals, isCancellation) {
		l.Debug(msg, keyvals...)
		return
	}

	l.Logger.Error(msg, keyvals...)
}

func isCancellation(value any) bool {
	err, ok := value.(error)
	return ok && (errors.Is(err, context.Canceled) || temporal.IsCanceledError(err))
}

// environ implements envconfig's environment with the given variables.
type environ map[string]string

func (e environ) LookupEnv(name string) (string, bool) { v, ok := e[name]; return v, ok }

func (e environ) Environ() []string {
	all := make([]string, 0, len(e))
	for name, value := range maps.All(e) {
		all = append(all, name+"="+value)
	}

	return all
}
