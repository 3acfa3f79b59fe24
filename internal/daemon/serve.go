package daemon

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/config"
	"github.com/rolloutd/rolloutd/internal/engine"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/listen"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// codecPath is where a Temporal UI has payloads decrypted.
const codecPath = "/codec"

// serveTier is the OpenEnv edge: the last to start, the first to stop.
func (d *Daemon) serveTier() Tier {
	return Tier{Name: "OpenEnv server", Budget: 10 * time.Second, Start: func(context.Context) (Running, error) {
		if !config.Loopback(d.cfg.Serve.Listen) && len(d.cfg.Serve.Tokens) == 0 && d.cfg.Serve.TokensFile == "" {
			// Validated already; but an open server on a network is not a mistake to make twice.
			return Running{}, fault.Field("serve.tokens", "needed to listen on %s", d.cfg.Serve.Listen)
		}
		tokens, err := d.tokens()
		if err != nil {
			return Running{}, err
		}
		edge, err := d.edge(tokens)
		if err != nil {
			return Running{}, err
		}
		l, err := listen.TCP("the OpenEnv server", d.cfg.Serve.Listen, "serve.listen (ROLLOUTD_LISTEN, --listen, --port)")
		if err != nil {
			return Running{}, err
		}
		d.at.Serve = l.Addr().String()
		r := serveHTTP(l, d.withCodec(edge, tokens))
		closeHTTP := r.Stop
		// The edge first: it knows that its clients have not left, and ends their WebSockets.
		r.Stop = func(ctx context.Context) error { return errors.Join(edge.Shutdown(ctx), closeHTTP(ctx)) }
		return r, nil
	}}
}

func (d *Daemon) edge(tokens []envserver.Token) (*envserver.Server, error) {
	box := d.key.Box("model key")
	return envserver.New(envserver.Options{
		Rollouts:    engine.New(d.temporal, d.store),
		Resolve:     d.resolve(catalog.New(d.modelLookup)),
		Seal:        box.SealString,
		Limits:      d.cfg.Limits.Over(rollout.DefaultLimits()),
		Version:     Version,
		Mode:        envserver.Mode(d.cfg.Serve.Mode),
		MaxSessions: d.cfg.Serve.MaxSessions,
		StepTimeout: d.cfg.Serve.StepTimeout,
		Tokens:      tokens,
		Sessions:    store.Sessions{Store: d.store},
		Logger:      d.log,
		Registerer:  d.tel.Registry(),
	})
}

// resolve is the catalogue's, with the configured price of the model.
func (d *Daemon) resolve(c *catalog.Catalog) func(catalog.Request) (rollout.Model, string, error) {
	return func(r catalog.Request) (rollout.Model, string, error) {
		m, key, err := c.Resolve(r)
		if price, ok := d.cfg.Prices[m.Name]; ok {
			m.Price = &price
		}
		return m, key, err
	}
}

// modelLookup finds the catalogue's variables; asked at each rollout, after all ports are known.
func (d *Daemon) modelLookup(name string) string { return d.cfg.ModelLookup(name) }

// withCodec adds the payload codec to the edge. It decrypts, so it is behind the same tokens.
func (d *Daemon) withCodec(edge http.Handler, tokens []envserver.Token) http.Handler {
	codec := http.StripPrefix(codecPath, admit(tokens, temporalx.CodecHandler(d.key, d.cfg.Serve.CodecOrigins)))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, codecPath+"/") {
			codec.ServeHTTP(w, r)
			return
		}
		edge.ServeHTTP(w, r) // untouched: the edge's own rules say what becomes of odd paths
	})
}

// admit lets operators through; a browser's preflight bears no token and tells nothing.
func admit(tokens []envserver.Token, next http.Handler) http.Handler {
	if len(tokens) == 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		t, ok := envserver.FindToken(tokens, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "))
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
