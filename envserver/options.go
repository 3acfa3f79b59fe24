// Package envserver is the OpenEnv edge: the HTTP, WebSocket and MCP interface of training clients, over
// one interface of the domain, Rollouts. Its wire format is that of the Python reference server. The
// transports are thin: everything a client can do uses one session type and one table of tools.
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
	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/exportmemory"
	"github.com/rolloutd/rolloutd/envserver/internal/rest"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Rollouts is the edge's interface of the engine that runs rollouts.
type Rollouts = access.Rollouts

// Groups is the edge's interface of the engine that runs groups of rollouts.
type Groups = access.Groups

// Fleet is the edge's interface of the hosts of the deployment.
type Fleet = access.Hosts

// Regrades is the edge's interface of the engine that grades the work of finished rollouts again.
type Regrades = access.Regrades

// Deliveries is the edge's interface of the engine that delivers groups to sinks.
type Deliveries = access.Deliveries

// Producers is the edge's interface of the engine that runs producers.
type Producers = access.Producers

// Episodes is the edge's interface of the hosts' tool services.
type Episodes = access.Episodes

// Uploads is the edge's interface of the store of clients' files.
type Uploads = rest.Uploads

// Endpoints is the edge's interface of the model endpoints that the server knows by name.
type Endpoints = rest.Endpoints

// Environment is an environment of interactive episodes.
type Environment struct {
	// name in its path, and in /metadata
	Name        string
	Description string
	// Tools lists the tools of the policy. It is called again from time to time. While it fails, the
	// environment opens no episodes and reports why; a known list stays in use.
	Tools func(context.Context) ([]Tool, error)

	// arguments of start_rollout, unless the client's reset sets them
	Defaults map[string]any

	// nil: the task is in the arguments of the reset
	Tasks Tasks
}

// Harbor is the environment for OpenEnv's HarborEnv clients, mounted at /env/harbor/.
type Harbor struct {
	// task set of clients that name none; "": the first by name
	TaskSet string

	// arguments of start_rollout that neither the task nor the call sets
	Arguments map[string]any
}

// Tool is a tool of the policy of an interactive episode.
type Tool = episodes.Tool

// Tasks picks the tasks of episodes.
type Tasks = episodes.Tasks

// Token is a client's token; see access.Token.
type Token = access.Token

// Scope is the permissions of a token.
type Scope = access.Scope

// Scopes of tokens.
const (
	ScopeClient   = access.ScopeClient
	ScopeOperator = access.ScopeOperator
)

// PlainToken returns the operator's token of a server with few tokens; its name is made from its digest.
func PlainToken(text string) Token { return access.PlainToken(text) }

// FindToken returns the token with a text; see access.FindToken.
func FindToken(all []Token, text string) (Token, bool) { return access.FindToken(all, text) }

// Sessions stores sessions for all replicas.
type Sessions = session.Keeper

// Mode selects the routes of a server.
type Mode string

const (
	// Simulation has every route.
	Simulation Mode = "simulation"
	// Production has no /reset, /step and /state over HTTP.
	Production Mode = "production"
)

// Options configures a Server. Rollouts, Resolve and Seal are required.
type Options struct {
	Rollouts Rollouts

	// nil: the server has no groups
	Groups Groups

	// nil: rollouts cannot be graded again
	Regrades Regrades

	// nil: groups cannot be delivered; needs Groups
	Deliveries Deliveries

	// nil: the server has no producers
	Producers Producers

	// the hosts of the deployment; nil: not shown to operators
	Fleet Fleet

	// the model endpoints that clients may name; nil: not shown
	Endpoints Endpoints

	// TemporalUI is the address of the deployment's workflows in Temporal's UI, ending in /; "": none is known.
	TemporalUI string
	// TaskSets are the paths of task sets by their names for clients.
	TaskSets map[string]string

	// Episodes calls the tools of rollouts that wait for calls; nil: no interactive episodes.
	Episodes Episodes
	// Uploads stores files that clients send before their rollouts; nil: none are accepted.
	Uploads Uploads

	// Environments are environments of interactive episodes, mounted at /env/NAME/.
	Environments []Environment
	// Harbor is the environment for HarborEnv's clients, over TaskSets; nil: there is none.
	Harbor *Harbor

	// Resolve turns a client's model arguments into an endpoint and its plain API key.
	Resolve func(catalog.Request) (rollout.Model, string, error)
	// Seal returns the storable form of an API key.
	Seal func(string) string

	// default Simulation
	Mode Mode

	// name of the environment in /metadata; default "opencode_env"
	Name        string
	Description string

	// version of the environment in /metadata; default "1.0.0"
	Version string

	// text of its README, in /metadata; default none
	Readme string

	// agents on offer; the first is the default; default "opencode"
	Agents []string

	// sandbox backends that a rollout may choose; the first is the default; default "local"
	Backends []string

	// images that a rollout may choose instead of the workers' own; default none
	Images []string

	// CheckImage refuses an image outside of Images that no worker of the backend can use; nil: only Images
	// are allowed.
	CheckImage func(backend, name string) error

	// CheckToolsets refuses toolsets of the agent "react" that no worker has; nil: all are allowed.
	CheckToolsets func(enabled, disabled []string) error

	// MaxSandbox bounds a sandbox of each backend; a missing backend is unbounded.
	MaxSandbox map[string]rollout.Resources
	// MaxNetwork are the hosts that a task may request: names, *.domain, "*" for all. Empty: none.
	MaxNetwork []string

	// Web adds the web interface: the page at /web/ and the routes that it uses.
	Web bool

	// Limits are the default limits of a rollout, without agent_timeout_s; missing ones are derived. Zero:
	// rollout.DefaultLimits.
	Limits rollout.Limits

	// Sessions stores sessions beyond this process, so that a client finds its own again; nil: they end
	// with their connection or this process.
	Sessions Sessions

	// sessions at once, over all transports; default 64
	MaxSessions int

	// TokenShare is the part of MaxSessions that the sessions of one token may take on a server with
	// several; default 0.5.
	TokenShare float64

	// SessionIdle is the time without use after which a session made over POST /mcp ends; default 1 h, negative: never.
	SessionIdle time.Duration
	// StepTimeout bounds the answer to a step over /ws, and to a tools/call over /mcp, if the client sets
	// no timeout_s. Default none: a client waits as long as it likes, and a rollout ends by its own limits.
	StepTimeout time.Duration

	// GiveUp is the age of a call over /ws from which the next request of a client that never sent ahead
	// means that it no longer waits for the answer, which is then dropped; default 1 s.
	GiveUp time.Duration

	// MaxMessage bounds a request body or frame, in bytes; default 16 MiB.
	MaxMessage int64
	// RequestMemory bounds the memory of large bodies and frames of all clients while they are read and
	// decoded, in bytes; a request beyond it is answered with 503, or close code 1013. One token may use
	// half of it. Default: eight times MaxMessage.
	RequestMemory int64

	// ExportMemory bounds the memory of transcripts, arrays and training sequences of all clients while
	// they are made and sent, in bytes; a request beyond it waits up to a minute and is then answered with
	// 503. Default: 1 GiB.
	ExportMemory int64

	// BodyTimeout bounds the transfer of a request's body, and of a large message over a WebSocket, so that
	// a client that sends byte by byte holds nothing for long; default 1 min.
	BodyTimeout time.Duration

	// PingInterval is the time between WebSocket pings; default 20 s.
	PingInterval time.Duration
	// Linger is for how long a refused WebSocket stays open so that its client can read the reason; default 5 s.
	Linger time.Duration

	// Tokens are accepted as bearer token or basic-auth password. Empty: no check, and every caller is an operator.
	Tokens []Token

	// Hosts are further host names, besides loopback names and the connection's own address, that the Host
	// header of a request may have on a server without Tokens. It thus refuses requests of a foreign page
	// whose name resolves to this server.
	Hosts []string

	// AllowedOrigins are pages of other hosts whose scripts may call this server, as scheme://host[:port].
	AllowedOrigins []string

	// default: discard
	Logger *slog.Logger

	// nil: metrics are not exposed
	Registerer prometheus.Registerer

	// default: the global one
	TracerProvider trace.TracerProvider
}

func (o Options) filled() (Options, error) {
	if o.Rollouts == nil || o.Resolve == nil || o.Seal == nil {
		return o, errors.New("envserver: Options.Rollouts, Resolve and Seal are required")
	}

	if o.Mode == "" {
		o.Mode = Simulation
	}

	if o.Mode != Simulation && o.Mode != Production {
		return o, errors.New("envserver: mode " + string(o.Mode) + ": must be simulation or production")
	}

	o.Name = cmp.Or(o.Name, "opencode_env")
	o.Description = cmp.Or(
		o.Description,
		"Runs a coding agent on a task in a sandbox, captures its model calls and grades the result.",
	)
	o.Version = cmp.Or(o.Version, "1.0.0")
	o.MaxSessions = cmp.Or(o.MaxSessions, 64)
	o.TokenShare = cmp.Or(o.TokenShare, 0.5)
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

// sessionShare returns the maximum of sessions of a client, by the name of its token; nil: all clients are one.
func (o Options) sessionShare() func(owner string) int {
	if len(o.Tokens) < 2 {
		return nil
	}

	shares := map[string]int{}
	for _, t := range o.Tokens {
		shares[t.Name] = max(1, int(cmp.Or(t.Share, o.TokenShare)*float64(o.MaxSessions)))
	}

	return func(owner string) int { return shares[owner] }
}

func (o Options) table(room *exportmemory.Room) (*tools.Table, error) {
	network, err := egress.ParseAllow(o.MaxNetwork)
	if err != nil {
		return nil, fmt.Errorf("envserver: MaxNetwork: %w", err)
	}

	return tools.New(tools.Options{
		Rollouts:      o.Rollouts,
		Groups:        o.Groups,
		Resolve:       o.Resolve,
		Seal:          o.Seal,
		Agents:        o.Agents,
		Backends:      o.Backends,
		MaxSandbox:    o.MaxSandbox,
		MaxNetwork:    tools.NetworkMax{Hosts: o.MaxNetwork, List: network},
		Images:        o.Images,
		CheckImage:    o.CheckImage,
		Limits:        o.Limits,
		CheckToolsets: o.CheckToolsets,
		NewID:         newID,
		Exports:       room,
	})
}

// newID returns ids that sort by time, which keeps lists of rollouts in order.
func newID() string {
	// fails only without a source of randomness
	return uuid.Must(uuid.NewV7()).String()
}
