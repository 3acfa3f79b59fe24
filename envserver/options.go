// Package envserver is the OpenEnv edge: the HTTP, WebSocket and MCP interface that training clients speak, over one
// interface of the domain, Rollouts. Its wire format is that of the Python reference server; the transports are thin, and
// everything a client can do goes through one session type and one table of tools.
package envserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/exports"
	"github.com/rolloutd/rolloutd/envserver/internal/play"
	"github.com/rolloutd/rolloutd/envserver/internal/rest"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Rollouts is what the edge needs of the engine that runs rollouts.
type Rollouts = access.Rollouts

// Groups is what the edge needs of the engine that runs groups of rollouts.
type Groups = access.Groups

// Fleet is what the edge needs of the hosts of the deployment.
type Fleet = access.Hosts

// Deliveries is what the edge needs of the engine that delivers groups to sinks.
type Deliveries = access.Deliveries

// Producers is what the edge needs of the engine that runs producers.
type Producers = access.Producers

// Episodes is what the edge needs of the tool services of the hosts.
type Episodes = access.Episodes

// Uploads is what the edge needs of the store of clients' files.
type Uploads = rest.Uploads

// Environment is an environment of interactive episodes.
type Environment struct {
	Name        string // in its path, and in /metadata
	Description string
	// Tools lists the tools of the policy. It is asked again from time to time. While it fails, the environment opens no episodes and says why;
	// a list that is known stays in use.
	Tools    func(context.Context) ([]Tool, error)
	Defaults map[string]any // arguments of start_rollout, where the client's reset does not say
	Tasks    Tasks          // nil: a task is in the arguments of the reset
}

// Harbor is the environment for OpenEnv's HarborEnv clients, mounted at /env/harbor/.
type Harbor struct {
	TaskSet   string         // that clients mean who name none; "": the first by name
	Arguments map[string]any // of start_rollout, where neither the task nor the call says
}

// Tool is a tool of the policy of an interactive episode.
type Tool = play.Tool

// Tasks picks the tasks of episodes.
type Tasks = play.Tasks

// Token admits a client; see access.Token.
type Token = access.Token

// Scope is what a token lets its bearer do.
type Scope = access.Scope

// Scopes of tokens.
const (
	ScopeClient   = access.ScopeClient
	ScopeOperator = access.ScopeOperator
)

// PlainToken is the operator's token of a server that has few; its name is made of its digest.
func PlainToken(text string) Token { return access.PlainToken(text) }

// FindToken returns the token with a text; see access.FindToken.
func FindToken(all []Token, text string) (Token, bool) { return access.FindToken(all, text) }

// Sessions keeps sessions where all replicas find them.
type Sessions = session.Keeper

// Mode says which routes there are.
type Mode string

const (
	// Simulation has every route.
	Simulation Mode = "simulation"
	// Production has no /reset, /step and /state over HTTP.
	Production Mode = "production"
)

// Options are what a Server is made of. Rollouts, Resolve and Seal are required.
type Options struct {
	Rollouts   Rollouts
	Groups     Groups     // nil: the server has no groups
	Deliveries Deliveries // nil: groups cannot be delivered; needs Groups
	Producers  Producers  // nil: the server has no producers
	Fleet      Fleet      // the hosts of the deployment; nil: operators do not see them
	// TaskSets are the paths of task sets by the name that clients use.
	TaskSets map[string]string
	// Episodes reaches the tools of rollouts that wait for calls; nil: there are no interactive episodes.
	Episodes Episodes
	// Uploads keeps files that clients send ahead of their rollouts; nil: it takes none.
	Uploads Uploads
	// Environments are environments of interactive episodes, mounted at /env/NAME/.
	Environments []Environment
	// Harbor is the environment for HarborEnv's clients, over TaskSets; nil: there is none.
	Harbor *Harbor
	// Resolve turns what a client said about its model into an endpoint and its plain API key.
	Resolve func(catalog.Request) (rollout.Model, string, error)
	// Seal makes the form of an API key that may be stored.
	Seal func(string) string

	Mode        Mode   // default Simulation
	Name        string // of the environment, in /metadata; default "opencode_env"
	Description string
	Version     string   // of the environment, in /metadata; default "1.0.0"
	Readme      string   // text of its README, in /metadata; default none
	Agents      []string // on offer, the first is the default; default "opencode"
	Backends    []string // of sandboxes, that a rollout may name; the first is the default; default "local"
	Images      []string // of sandboxes, that a rollout may name instead of the workers' own; default none

	// CheckImage refuses an image, beside Images, that no worker of the backend can have; nil: only Images may be named.
	CheckImage func(backend, name string) error

	// CheckToolsets refuses toolsets of the agent "react" that no worker has; nil: all are taken.
	CheckToolsets func(enabled, disabled []string) error

	// MaxSandbox is what a sandbox of each backend may ask for; what is not listed is unbounded.
	MaxSandbox map[string]rollout.Resources
	// MaxNetwork are the hosts that a task may ask to reach: names, *.domain, "*" for all. Empty: none.
	MaxNetwork []string

	// Web adds the web interface: the page at /web/ and the routes that it uses.
	Web bool

	// Limits are the bounds of a rollout where its caller does not say (agent_timeout_s apart); what they leave open is
	// derived. Zero: rollout.DefaultLimits.
	Limits rollout.Limits

	// Sessions keeps sessions beyond this process, so that a client finds its own again; nil: they end with their
	// connection or this process.
	Sessions    Sessions
	MaxSessions int // sessions at once, over all transports; default 64
	// SessionIdle is how long a session made over POST /mcp may be unused before it ends; default 1 h, negative: without limit.
	SessionIdle time.Duration
	// StepTimeout bounds the answer to a step over /ws, and to a tools/call over /mcp, whose client names no timeout_s; default none: a
	// client waits as long as it likes, and a rollout ends by its own bounds.
	StepTimeout time.Duration
	// GiveUp is how old a call over /ws must be before the next request of a client that never sent ahead says that it no longer waits for
	// the answer, which is then dropped; default 1 s.
	GiveUp time.Duration
	// MaxMessage is the largest request body or frame taken, in bytes; default 16 MiB.
	MaxMessage int64
	// RequestMemory is what large bodies and frames of all clients may take at once while they are read and decoded, in bytes; one more is
	// answered with 503, or close code 1013. One token may hold half of it. Default: eight of MaxMessage.
	RequestMemory int64
	// ExportMemory is what transcripts, arrays and training sequences of all clients may take at once while they are made and sent, in
	// bytes; one more waits up to a minute and is then answered with 503. Default: 1 GiB.
	ExportMemory int64
	// BodyTimeout bounds the sending of a request's body, and of a large message over a WebSocket, so that a client which sends byte by
	// byte holds nothing for long; default 1 min.
	BodyTimeout time.Duration
	// PingInterval is the time between WebSocket pings; default 20 s.
	PingInterval time.Duration
	// Linger is how long a refused WebSocket stays open so that its client reads why; default 5 s.
	Linger time.Duration

	// Tokens admit a request that carries one of them as bearer token or basic-auth password. Empty: no check, and every
	// caller is an operator.
	Tokens []Token
	// Hosts are names, beside those of loopback and the address a connection came to, by which a request may address a server
	// without Tokens in its Host header. A page of a stranger whose name resolves to this server is thus refused.
	Hosts []string
	// AllowedOrigins are pages of other hosts whose scripts may call this server, as scheme://host[:port].
	AllowedOrigins []string

	Logger         *slog.Logger          // default: discard
	Registerer     prometheus.Registerer // nil: metrics are not exposed
	TracerProvider trace.TracerProvider  // default: the global one
}

func (o Options) filled() (Options, error) {
	if o.Rollouts == nil || o.Resolve == nil || o.Seal == nil {
		return o, errors.New("envserver: Options.Rollouts, Resolve and Seal are required")
	}
	if o.Mode == "" {
		o.Mode = Simulation
	}
	if o.Mode != Simulation && o.Mode != Production {
		return o, errors.New("envserver: mode " + string(o.Mode) + ": want simulation or production")
	}
	o.Name = cmp.Or(o.Name, "opencode_env")
	o.Description = cmp.Or(o.Description, "Runs a coding agent on a task in a sandbox, captures its model calls and grades the result.")
	o.Version = cmp.Or(o.Version, "1.0.0")
	o.MaxSessions = cmp.Or(o.MaxSessions, 64)
	o.SessionIdle = cmp.Or(o.SessionIdle, time.Hour)
	o.MaxMessage = cmp.Or(o.MaxMessage, 16<<20)
	o.RequestMemory = cmp.Or(o.RequestMemory, 8*o.MaxMessage)
	o.ExportMemory = cmp.Or(o.ExportMemory, 1<<30)
	o.BodyTimeout = cmp.Or(o.BodyTimeout, time.Minute)
	o.PingInterval = cmp.Or(o.PingInterval, 20*time.Second)
	o.Linger = cmp.Or(o.Linger, 5*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if len(o.Agents) == 0 {
		o.Agents = []string{rollout.AgentOpencode}
	}
	if len(o.Backends) == 0 {
		o.Backends = []string{"local"}
	}
	if o.Limits == (rollout.Limits{}) {
		o.Limits = rollout.DefaultLimits()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = otel.GetTracerProvider()
	}
	return o, nil
}

func (o Options) table(room *exports.Room) (*tools.Table, error) {
	network, err := egress.ParseAllow(o.MaxNetwork)
	if err != nil {
		return nil, fmt.Errorf("envserver: MaxNetwork: %w", err)
	}
	return tools.New(tools.Options{Rollouts: o.Rollouts, Groups: o.Groups, Resolve: o.Resolve, Seal: o.Seal, Agents: o.Agents, Backends: o.Backends, MaxSandbox: o.MaxSandbox, MaxNetwork: tools.NetworkMax{Hosts: o.MaxNetwork, List: network}, Images: o.Images, CheckImage: o.CheckImage, Limits: o.Limits, CheckToolsets: o.CheckToolsets, NewID: newID, Exports: room})
}

// newID makes ids that sort by time, which keeps lists of rollouts in order.
func newID() string {
	return uuid.Must(uuid.NewV7()).String() // fails only without a source of randomness
}
