package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/clock"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/daemon/images"
	"github.com/rolloutd/rolloutd/internal/daemon/tier"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/host/hostapi"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/input/bearer"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/network/listen"
	"github.com/rolloutd/rolloutd/internal/retention"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx"
	"github.com/rolloutd/rolloutd/internal/temporalx/rollouts"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// codecPath is the path at which a Temporal UI decrypts payloads.
const codecPath = "/codec"

// serveTier runs the OpenEnv edge. It starts last and stops first.
func (d *Daemon) serveTier() tier.Tier {
	return tier.Tier{
		Name:   "OpenEnv server",
		Budget: 10 * time.Second,
		Start:  d.startServer,
	}
}

func (d *Daemon) startServer(ctx context.Context, parts *tier.Parts) error {
	if !config.Loopback(d.cfg.Serve.Listen) && len(d.cfg.Serve.Tokens) == 0 && d.cfg.Serve.TokensFile == "" {
		// Validate checks this too; an open server on a network deserves a second check.
		return fault.Field("serve.tokens", "must be set to listen on %s", d.cfg.Serve.Listen)
	}

	tokens, err := d.tokens()
	if err != nil {
		return err
	}

	tools, closeTools, err := toolLists(d.cfg, d.log)
	if err != nil {
		return err
	}

	parts.OnClose(closeTools)

	search, err := d.openSearch(ctx)
	if err != nil {
		return err
	}

	parts.OnClose(search.Close)

	fleet := hostapi.NewClient(d.store, d.key)
	prompt := temporalx.Prompt{Client: d.temporal}
	engine := rollouts.New(prompt, d.workflowQueue(), d.store, temporalx.DataConverter(d.key), fleet)
	list := searchable{engine, search}

	edge, err := d.edge(tokens, tools, list, fleet)
	if err != nil {
		return err
	}

	l, err := listen.TCP("the OpenEnv server", d.cfg.Serve.Listen, "serve.listen (ROLLOUTD_LISTEN, --listen, --port)")
	if err != nil {
		return err
	}

	d.at.Serve = l.Addr().String()

	for _, f := range []func(context.Context) error{list.Follow, d.retention().Run, d.expireSessions} {
		parts.OnStop(tier.Background(f).Stop)
	}

	parts.Add(tier.ServeHTTP(listen.Limit(l, d.cfg.Connections()), d.withCodec(edge, tokens)))
	// It stops first: it closes its WebSockets with a reason.
	parts.OnStop(edge.Shutdown)

	return nil
}

func (d *Daemon) edge(
	tokens []envserver.Token,
	tools *tool.Registry,
	list searchable,
	fleet *hostapi.Client,
) (*envserver.Server, error) {
	readme, err := d.readme()
	if err != nil {
		return nil, err
	}

	policy, err := egress.Parse(d.cfg.Gateway.AllowHosts)
	if err != nil {
		return nil, fmt.Errorf("gateway.allow_hosts: %w", err)
	}

	agents, err := Agents(d.cfg, d.log)
	if err != nil {
		return nil, err
	}

	environments, err := episodeEnvironments(d.cfg, tools)
	if err != nil {
		return nil, err
	}

	box := d.key.Box("model key")
	engine := list.Client

	return envserver.New(envserver.Options{
		Rollouts:     list,
		Groups:       engine,
		Regrades:     engine,
		Deliveries:   knownSinks{engine, d.cfg.Sinks},
		Producers:    sinkProducers{engine, d.cfg.Sinks},
		Fleet:        fleet,
		Endpoints:    d.endpoints(),
		TaskSets:     d.taskSets(),
		Episodes:     rollouts.NewEpisodes(engine, d.key.Token(episode.TokenPurpose)),
		Uploads:      d.uploads(),
		Environments: environments,
		Harbor:       harborEnvironment(d.cfg),
		Resolve:      d.resolve(catalog.New(d.modelLookup, policy)),
		Seal:         box.SealString,
		Backends:     d.cfg.Sandbox.BackendNames(),
		MaxSandbox:   d.cfg.Sandbox.Max(),
		MaxNetwork:   d.cfg.Sandbox.Network.Max,
		Agents:       agents.Names(),
		CheckImage:   d.checkImages(),
		CheckToolsets: func(enabled, disabled []string) error {
			_, err := tools.Select(enabled, disabled)
			return err
		},
		Limits:      d.cfg.Limits.Over(rollout.DefaultLimits()),
		Version:     Version,
		Mode:        envserver.Mode(d.cfg.Serve.Mode),
		Web:         d.cfg.Serve.Web,
		TemporalUI:  workflowsIn(d.cfg.Serve.TemporalUI, d.cfg.Temporal.Namespace),
		Readme:      readme,
		MaxSessions: d.cfg.Sessions(),
		TokenShare:  d.cfg.Serve.TokenShare,
		StepTimeout: d.cfg.Serve.StepTimeout,
		Tokens:      tokens,
		Hosts:       d.cfg.Serve.Hosts,
		Sessions:    store.Sessions{Store: d.store},
		Logger:      d.log,
		Registerer:  d.tel.Registry(),
	})
}

// workflowsIn is the address of a namespace's workflows in a Temporal UI; "": there is no UI.
func workflowsIn(ui, namespace string) string {
	if ui == "" {
		return ""
	}

	return strings.TrimSuffix(ui, "/") + "/namespaces/" + url.PathEscape(namespace) + "/workflows/"
}

func (d *Daemon) readme() (string, error) {
	if d.cfg.Serve.Readme == "" {
		return "", nil
	}

	text, err := os.ReadFile(d.cfg.Serve.Readme)
	if err != nil {
		return "", fmt.Errorf("serve.readme (ENV_README_PATH): %w", err)
	}

	return string(text), nil
}

func (d *Daemon) uploads() store.Uploads {
	return store.Uploads{Store: d.store, MaxBytes: int64(d.cfg.Serve.UploadsMiB) << 20, Keep: d.cfg.Serve.KeepSessions}
}

// retention deletes the rollouts that the configuration gives up.
func (d *Daemon) retention() *retention.Service {
	rules := make([]retention.Policy, len(d.cfg.Retention.Rules))
	for i, r := range d.cfg.Retention.Rules {
		rules[i] = retention.Policy{OlderThan: r.OlderThan, Outcomes: r.Outcomes, MaxBytes: r.MaxMiB << 20}
	}

	return retention.NewService(d.store, rules, d.cfg.Retention.Every, d.log, d.tel.Registry())
}

// expireSessions deletes unused sessions and uploads at intervals until ctx ends. Several replicas may run it at once.
func (d *Daemon) expireSessions(ctx context.Context) error {
	for {
		d.expire(ctx)

		if clock.Sleep(ctx, time.Hour) != nil {
			return nil
		}
	}
}

// expire deletes unused sessions and uploads once.
func (d *Daemon) expire(ctx context.Context) {
	n, err := store.Sessions{Store: d.store}.Expire(ctx, time.Now().Add(-d.cfg.Serve.KeepSessions))
	if err != nil && ctx.Err() == nil {
		d.log.Warn("old sessions not deleted", "error", err)
	} else if n > 0 {
		d.log.Info("deleted unused sessions", "records", n, "for", d.cfg.Serve.KeepSessions)
	}

	if n, err = d.uploads().Expire(ctx); err != nil && ctx.Err() == nil {
		d.log.Warn("old uploads not deleted", "error", err)
	} else if n > 0 {
		d.log.Info("deleted old uploads", "files", n, "for", d.cfg.Serve.KeepSessions)
	}
}

// resolve resolves an endpoint by the catalog and adds the configured price and translation.
func (d *Daemon) resolve(c *catalog.Catalog) func(catalog.Request) (rollout.Model, string, error) {
	return func(r catalog.Request) (rollout.Model, string, error) {
		m, key, err := c.Resolve(r)
		if price, ok := d.cfg.Prices[m.Name]; ok {
			m.Price = &price
		}

		if slices.Contains(d.cfg.Translate, m.Endpoint) || slices.Contains(d.cfg.Translate, m.Upstream()) {
			m.Translate = rollout.TranslateChat
		}

		return m, key, err
	}
}

// modelLookup returns a variable of the catalog. It is called for each rollout, after all ports are known.
func (d *Daemon) modelLookup(name string) string { return d.cfg.ModelLookup(name) }

// withCodec adds the payload codec to the edge. It decrypts, so the rules of the edge hold: its tokens or,
// without any, its names.
func (d *Daemon) withCodec(edge http.Handler, tokens []envserver.Token) http.Handler {
	guarded := admit(tokens, temporalx.CodecHandler(d.key, d.cfg.Serve.CodecOrigins))
	if len(tokens) == 0 {
		guarded = tier.OwnHost(d.cfg.Serve.Hosts, guarded)
	}

	codec := http.StripPrefix(codecPath, guarded)

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, codecPath+"/") {
			codec.ServeHTTP(w, r)
			return
		}
		// unchanged: the edge handles unclean paths
		edge.ServeHTTP(w, r)
	})
}

// admit requires an operator's token. A browser's preflight has none and returns nothing private.
func admit(tokens []envserver.Token, next http.Handler) http.Handler {
	if len(tokens) == 0 {
		return next
	}

	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, ok := envserver.FindToken(tokens, bearer.Token(r))
		switch {
		case r.Method == http.MethodOptions, ok && t.Scope == envserver.ScopeOperator:
			next.ServeHTTP(w, r)
		case ok:
			http.Error(w, "the token of an operator is needed", http.StatusForbidden)
		default:
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
		}
	})
}

// checkImages returns a check that refuses an image that no worker of the backend can have. Only workers know the images
// of a Docker daemon.
func (d *Daemon) checkImages() func(backend, name string) error {
	checker := images.NewChecker(d.cfg, d.log, d.roles.Worker)

	return func(backend, name string) error {
		if backend != rollout.DefaultBackend {
			_, err := image.ParseName(name)
			return err
		}

		return checker.Check(name)
	}
}
