package config

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// minToken is the minimum length of a token, in bytes.
const minToken = 16

// Validate reports all problems, each with the path of its setting.
func (c Config) Validate() error {
	var p problems
	p.check(c.Data != "", "data", "must be the path of a folder")
	c.Serve.validate(&p)
	c.Temporal.validate(&p)
	c.Gateway.validate(&p)
	c.Worker.validate(&p)
	c.Sandbox.validate(&p)
	c.Store.validate(&p)
	c.Retention.validate(&p)
	c.Limits.validate(&p)
	c.validatePrices(&p)
	c.validateAgents(&p)
	c.validateTaskSets(&p)
	c.validateSinks(&p)
	c.validatePools(&p)
	c.Tools.validate(&p)
	c.ToolServer.validate(&p)
	c.TrainerAPI.validate(&p)
	c.validateEnvironments(&p)

	for _, name := range slices.Sorted(maps.Keys(c.ModelEnv)) {
		p.check(slices.Contains(modelVariables(), name), "model_env."+name,
			"the name must be one of %s", strings.Join(modelVariables(), ", "))

		if strings.HasSuffix(name, "_URL") {
			// the engines of one endpoint
			for u := range strings.SplitSeq(c.ModelEnv[name], ",") {
				p.httpURL("model_env."+name, strings.TrimSpace(u))
			}
		}
	}

	p.address("model.listen", c.Model.Listen)

	if c.Telemetry.Listen != "" {
		p.address("telemetry.listen", c.Telemetry.Listen)
	}

	if c.Telemetry.OTLPEndpoint != "" {
		p.httpURL("telemetry.otlp_endpoint", c.Telemetry.OTLPEndpoint)
	}

	if c.EncryptionKey != "" {
		_, err := seal.ParseKey(c.EncryptionKey)
		p.check(err == nil, "ROLLOUTD_ENCRYPTION_KEY", "must be 64 hex digits or base64 of 32 bytes")
	}

	return errors.Join(p...)
}

func (s Serve) validate(p *problems) {
	p.address("serve.listen", s.Listen)
	p.check(s.Mode == "simulation" || s.Mode == "production", "serve.mode",
		"must be simulation or production, got %q", s.Mode)
	p.check(s.MaxSessions >= 0, "serve.max_sessions", "must be 0 (the default) or more, got %d", s.MaxSessions)
	p.share("serve.token_share", s.TokenShare)
	p.check(s.MaxConnections >= 0, "serve.max_connections", "must be 0 (the default) or more, got %d", s.MaxConnections)
	p.check(s.StepTimeout >= 0, "serve.step_timeout", "must be 0 (no bound) or more, got %s", s.StepTimeout)
	// Sessions in use are written at least every hour.
	p.check(s.KeepSessions >= 2*time.Hour, "serve.keep_sessions", "must be at least 2h, got %v", s.KeepSessions)
	p.check(s.UploadsMiB > 0, "serve.uploads_mib", "must be at least 1, got %d", s.UploadsMiB)
	p.check(s.SearchMiB >= 0, "serve.search_mib", "must be 0 (no bound) or more, got %d", s.SearchMiB)
	p.check(len(s.Tokens) > 0 || s.TokensFile != "" || Loopback(s.Listen), "serve.tokens",
		"%s can be reached from other machines: set at least one bearer token (ROLLOUTD_TOKENS, ROLLOUTD_TOKENS_FILE), or listen on 127.0.0.1",
		s.Listen)

	for i, t := range s.Tokens {
		p.check(len(t) >= minToken, fmt.Sprintf("serve.tokens[%d]", i), "must have at least %d characters", minToken)
	}

	if ui, err := url.Parse(s.TemporalUI); s.TemporalUI != "" {
		p.check(err == nil && (ui.Scheme == "http" || ui.Scheme == "https") && ui.Host != "" && ui.RawQuery == "",
			"serve.temporal_ui", "must be a URL such as http://127.0.0.1:8233, got %q", s.TemporalUI)
	}

	for i, o := range s.CodecOrigins {
		u, err := url.Parse(o)
		p.check(err == nil && u.Scheme != "" && u.Host != "" && u.Path == "", fmt.Sprintf("serve.codec_origins[%d]", i),
			"must be an origin such as http://127.0.0.1:8233, got %q", o)
	}
}

func (t Temporal) validate(p *problems) {
	if t.Address != "" {
		p.address("temporal.address", t.Address)
	}
}

func (w Worker) validate(p *problems) {
	p.address("worker.listen", w.Listen)

	if u, err := url.Parse(w.Advertise); w.Advertise != "" {
		p.check(err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https"), "worker.advertise",
			"must be http://HOST:PORT or https://HOST:PORT, got %q", w.Advertise)
	}

	p.check(w.Capacity >= 0, "worker.capacity", "must be 0 (as many as memory allows) or more, got %d", w.Capacity)
	p.share("worker.token_share", w.TokenShare)
	p.check(w.Starts >= 0, "worker.starts", "must be 0 (one for each core) or more, got %d", w.Starts)
	p.check(w.Lease >= 30*time.Second && w.Lease <= 7*24*time.Hour, "worker.lease",
		"must be at least 30s, so that a busy host can renew in time, and at most 168h, the longest lease of a sandbox; got %s",
		w.Lease)
	p.positive("worker.janitor", w.Janitor)
	p.positive("worker.grace", w.Grace)

	if w.ToolsListen != "" {
		p.address("worker.tools_listen", w.ToolsListen)
	}

	if w.ToolsURL != "" {
		p.httpURL("worker.tools_url", w.ToolsURL)
	}

	p.check(!strings.ContainsAny(w.Deployment, ".:"), "worker.deployment",
		"must be a name without '.' and ':', which Temporal reserves, got %q", w.Deployment)
}

func (s Sandbox) validate(p *problems) {
	p.check(s.CPU >= 0, "sandbox.cpu", "must be 0 (the default) or more, got %g", s.CPU)
	p.check(s.MemoryMiB >= 256, "sandbox.memory_mib", "must be at least 256, which an agent needs, got %d", s.MemoryMiB)

	for _, n := range []struct {
		path  string
		value int
	}{
		{"pids", s.PIDs}, {"home_mib", s.HomeMiB}, {"tmp_mib", s.TmpMiB}, {"warm", s.Warm},
	} {
		p.check(n.value >= 0, "sandbox."+n.path, "must be 0 or more, got %d", n.value)
	}

	s.Images.validate(p)
	s.E2B.validate(p)

	for i, host := range s.Network.Max {
		_, err := egress.ParseAllow([]string{host})
		p.check(err == nil, fmt.Sprintf("sandbox.network.max[%d]", i), "%v", err)
	}

	for i, host := range s.Network.AllowHosts {
		_, err := egress.Parse([]string{host})
		p.check(err == nil, fmt.Sprintf("sandbox.network.allow_hosts[%d]", i), "%v", err)
	}

	for name, b := range s.Backends {
		for which, r := range map[string]rollout.Resources{"total": b.Total, "max": b.Max} {
			p.check(r.CPU >= 0 && r.MemoryMiB >= 0 && r.DiskMiB >= 0, "sandbox.backends."+name+"."+which,
				"cpu, memory_mib and disk_mib must be 0 (the default) or more, got %g, %d and %d", r.CPU, r.MemoryMiB,
				r.DiskMiB)
		}
	}
}

func (s Store) validate(p *problems) {
	p.check(s.RolloutMiB >= 0 && s.MinFreeMiB >= 0 && s.MaxMiB >= 0, "store",
		"rollout_mib, min_free_mib and max_mib must be 0 (no bound) or more, got %d, %d and %d", s.RolloutMiB,
		s.MinFreeMiB, s.MaxMiB)
}

// leastRetention is the least age of what may be deleted: a younger rollout may be running.
const leastRetention = time.Hour

func (r Retention) validate(p *problems) {
	p.check(r.Every >= time.Minute, "retention.every", "must be at least 1m, got %s", r.Every)

	for i, rule := range r.Rules {
		path := fmt.Sprintf("retention.rules[%d].", i)
		p.check(rule.OlderThan >= leastRetention, path+"older_than",
			"must be at least %s, got %s", leastRetention, rule.OlderThan)
		p.check(rule.MaxMiB >= 0, path+"max_mib", "must be 0 (age decides alone) or more, got %d", rule.MaxMiB)

		for _, o := range rule.Outcomes {
			p.check(slices.Contains(rollout.Outcomes(), o), path+"outcomes",
				"must be of %s; got %q", rollout.OutcomeNames(), o)
		}
	}
}

func (l Limits) validate(p *problems) {
	for _, d := range []struct {
		path  string
		value time.Duration
	}{
		{"call", l.Call}, {"setup", l.Setup}, {"verifier", l.Verifier}, {"rollout", l.Rollout}, {"queue", l.Queue},
	} {
		p.check(d.value >= 0, "limits."+d.path, "must be 0 (the default) or more, got %s", d.value)
	}

	p.check(l.Attempts >= 0, "limits.attempts", "must be 0 (the default) or more, got %d", l.Attempts)
}

// problems collects errors.
type problems []error

func (p *problems) check(ok bool, path, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...)))
	}
}

func (p *problems) positive(path string, d time.Duration) {
	p.check(d > 0, path, "must be more than 0, got %s", d)
}

func (p *problems) share(path string, part float64) {
	p.check(part > 0 && part <= 1, path, "must be more than 0 and at most 1, got %g", part)
}

func (p *problems) address(path, addr string) {
	_, port, err := net.SplitHostPort(addr)
	n, perr := strconv.Atoi(port)
	p.check(err == nil && perr == nil && n >= 0 && n <= 65535, path, "must be HOST:PORT, got %q", addr)
}

func (p *problems) httpURL(path, s string) {
	u, err := url.Parse(s)
	// the query may have a key, the part before @ a password
	shown, _, _ := strings.Cut(s, "?")
	shown = shown[strings.LastIndex(shown, "@")+1:]
	p.check(err == nil && strings.HasPrefix(u.Scheme, "http") && u.Host != "", path,
		"must be an http:// or https:// URL, got %q", shown)
}
