package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/catalog"
	"github.com/rolloutd/rolloutd/internal/input/yamlinput"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Gateway has the settings of the gateway role.
type Gateway struct {
	// admin API
	Listen string `yaml:"listen"`

	// URL for this host's worker; empty: http:// and Listen
	URL string `yaml:"url"`

	// trainer API
	TrainerListen string `yaml:"trainer_listen"`

	// URL for "rolloutd upstream"; empty: http:// and TrainerListen
	TrainerURL string `yaml:"trainer_url"`

	// tokens of trainers without the deployment's key
	TrainerTokens []string `yaml:"trainer_tokens"`

	// AllowHosts are the special hosts (loopback, private, link-local) that URLs of clients may name; see
	// package egress for the patterns. The server checks them at submit, the gateway again when it dials.
	AllowHosts []string `yaml:"allow_hosts"`

	// Reply is when a stream is forwarded: ReplyComplete, after it is complete and recorded, or
	// ReplyPassThrough, while it arrives.
	Reply string `yaml:"reply"`
	// RawLogprobs allows training on turns whose log probabilities are those before the temperature.
	RawLogprobs bool `yaml:"raw_logprobs"`
	// KeepAlive is the interval of comments to an agent that waits for a stream; 0: none.
	KeepAlive time.Duration `yaml:"keep_alive"`

	// EmptyReplies is the number of replies without any token after which a call has failed.
	EmptyReplies int `yaml:"empty_replies"`

	// Bounds of a model endpoint, by its name, or host:port of an endpoint without a name; defaultUpstream
	// applies to all others. 0: no bound. requests at once
	Calls map[string]float64 `yaml:"calls"`

	// requests a second
	Rate map[string]float64 `yaml:"rate"`

	// requests at once under a rate; 0: those of one second
	Burst map[string]float64 `yaml:"burst"`
	// Continuation is a rollout.Continuation, by the name of an endpoint; "": auto.
	Continuation map[string]string `yaml:"continuation"`
	// UserTurn is a rollout.UserTurn, by the name of an endpoint; "": continue.
	UserTurn map[string]string `yaml:"user_turn"`
	// CacheSalt is one of the values below, by the name of an endpoint; "": SaltTurn.
	CacheSalt map[string]string `yaml:"cache_salt"`
	// OnEngineFault is what happens to replies with a fault of the engine, by the name of an endpoint; "": keep.
	OnEngineFault map[string]string `yaml:"on_engine_fault"`
	// RoutedExperts are the endpoints that are asked for routed experts, by name, or defaultUpstream.
	RoutedExperts []string `yaml:"routed_experts"`
	// Audit is the share of an endpoint's turns that is scored again in the background; 0: none.
	Audit map[string]float64 `yaml:"audit"`
	// AuditDrop takes turns that do not fit their weights out of training.
	AuditDrop bool `yaml:"audit_drop"`
	// Queue makes new rollouts wait while more calls than this wait for their endpoint; 0: no bound.
	Queue int `yaml:"queue"`
	// ReplyMemoryMiB bounds the memory of all replies in progress together; 0: a quarter of the machine's
	// memory, at least 1 GiB.
	ReplyMemoryMiB int `yaml:"reply_memory_mib"`
}

// minReplyMemory is enough for replies of ordinary models, in MiB; the largest accepted reply needs more.
const minReplyMemory = 64

// Values of Gateway.Reply.
const (
	ReplyComplete    = "complete"
	ReplyPassThrough = "pass_through"
)

// Values of Gateway.CacheSalt.
const (
	SaltOff     = "off"
	SaltTurn    = "turn"
	SaltRollout = "rollout"
)

// defaultUpstream is the key in Gateway's maps for all endpoints that they do not name.
const defaultUpstream = "default"

// Of returns the value of an endpoint, or of defaultUpstream.
func (g Gateway) Of(m map[string]float64, name string) float64 { return valueOf(m, name) }

// ContinuationOf returns how calls of an endpoint continue a conversation.
func (g Gateway) ContinuationOf(name string) rollout.Continuation {
	return rollout.Continuation(cmp.Or(valueOf(g.Continuation, name), string(rollout.ContinuationAuto)))
}

// UserTurnOf returns how conversations with an endpoint go on at a user message after a final answer.
func (g Gateway) UserTurnOf(name string) rollout.UserTurn {
	return rollout.UserTurn(cmp.Or(valueOf(g.UserTurn, name), string(rollout.UserTurnContinue)))
}

// CacheSaltOf returns when calls of an endpoint get another salt of its prefix cache.
func (g Gateway) CacheSaltOf(name string) string {
	return cmp.Or(valueOf(g.CacheSalt, name), SaltTurn)
}

// OnEngineFaultOf returns what happens to replies of an endpoint with a fault of the engine.
func (g Gateway) OnEngineFaultOf(name string) rollout.OnEngineFault {
	return rollout.OnEngineFault(cmp.Or(valueOf(g.OnEngineFault, name), string(rollout.FaultKeep)))
}

// RoutedExpertsOf reports whether an endpoint is asked for routed experts.
func (g Gateway) RoutedExpertsOf(name string) bool {
	return slices.Contains(g.RoutedExperts, name) || slices.Contains(g.RoutedExperts, defaultUpstream)
}

func valueOf[V any](m map[string]V, name string) V {
	if v, ok := m[name]; ok {
		return v
	}

	return m[defaultUpstream]
}

func (g Gateway) validate(p *problems) {
	g.validateAddresses(p)
	g.validateReplies(p)

	p.words(
		"gateway.continuation", g.Continuation,
		string(rollout.ContinuationAuto), string(rollout.ContinuationMessages), string(rollout.ContinuationRequired),
	)
	p.words("gateway.user_turn", g.UserTurn, string(rollout.UserTurnContinue), string(rollout.UserTurnRender))
	p.words("gateway.cache_salt", g.CacheSalt, SaltOff, SaltTurn, SaltRollout)
	p.words(
		"gateway.on_engine_fault", g.OnEngineFault,
		string(rollout.FaultKeep), string(rollout.FaultMask), string(rollout.FaultReplace),
	)

	for _, name := range slices.Sorted(maps.Keys(g.Audit)) {
		share := g.Audit[name]
		p.check(share >= 0 && share <= 1, "gateway.audit."+name, "must be a share from 0 (none) to 1 (all), got %g", share)
		p.endpoint("gateway.audit", name)
	}

	p.check(g.Queue >= 0, "gateway.queue", "must be 0 (no bound) or more, got %d", g.Queue)
	p.bounds("gateway.calls", g.Calls)
	p.wholeNumbers("gateway.calls", g.Calls)
	p.bounds("gateway.rate", g.Rate)
	p.bounds("gateway.burst", g.Burst)
	p.wholeNumbers("gateway.burst", g.Burst)
}

func (g Gateway) validateAddresses(p *problems) {
	p.address("gateway.listen", g.Listen)

	if g.URL != "" {
		p.httpURL("gateway.url", g.URL)
	}

	p.address("gateway.trainer_listen", g.TrainerListen)

	if g.TrainerURL != "" {
		p.httpURL("gateway.trainer_url", g.TrainerURL)
	}

	for i, t := range g.TrainerTokens {
		path := fmt.Sprintf("gateway.trainer_tokens[%d]", i)
		p.check(len(t) >= minToken, path, "must have at least %d characters", minToken)
	}

	for i, host := range g.AllowHosts {
		_, err := egress.Parse([]string{host})
		p.check(err == nil, fmt.Sprintf("gateway.allow_hosts[%d]", i), "%v", err)
	}
}

func (g Gateway) validateReplies(p *problems) {
	p.check(g.Reply == ReplyComplete || g.Reply == ReplyPassThrough, "gateway.reply",
		"must be %s or %s, got %q", ReplyComplete, ReplyPassThrough, g.Reply)
	p.check(g.KeepAlive >= 0, "gateway.keep_alive", "must be 0 (never) or more, got %s", g.KeepAlive)
	p.check(g.EmptyReplies >= 1, "gateway.empty_replies", "must be at least 1, got %d", g.EmptyReplies)
	p.check(g.ReplyMemoryMiB == 0 || g.ReplyMemoryMiB >= minReplyMemory, "gateway.reply_memory_mib",
		"must be 0 (a quarter of the machine's memory) or at least %d, got %d", minReplyMemory, g.ReplyMemoryMiB)
}

// bounds refuses bounds of endpoints that are not numbers of at least 0.
func (p *problems) bounds(path string, of map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		v := of[name]
		p.check(v >= 0 && !math.IsInf(v, 0), path+"."+name, "must be 0 (no bound) or a finite number above, got %g", v)
		p.endpoint(path, name)
	}
}

func (p *problems) wholeNumbers(path string, of map[string]float64) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		v := of[name]
		p.check(v == math.Trunc(v), path+"."+name, "must be a whole number, got %g", v)
	}
}

// words refuses values of endpoints that are none of the words.
func (p *problems) words(path string, of map[string]string, allowed ...string) {
	last := len(allowed) - 1
	list := strings.Join(allowed[:last], ", ") + " or " + allowed[last]

	for _, name := range slices.Sorted(maps.Keys(of)) {
		word := of[name]
		p.check(slices.Contains(allowed, word), path+"."+name, "must be %s, got %q", list, word)
		p.endpoint(path, name)
	}
}

// endpoint refuses misspelled names of endpoints. A name that resembles none, has a dot, a port or a digit,
// or extends an endpoint's name with a hyphen may be the host of a URL.
func (p *problems) endpoint(path, name string) {
	p.check(!strings.Contains(name, "/"), path+"."+name,
		"must be an endpoint's name, or host:port of an endpoint given only by URL")

	names := append(catalog.Names(), defaultUpstream)
	near := yamlinput.NearestName(name, "", names)
	host := strings.ContainsAny(name, ".:0123456789") || strings.HasPrefix(name, near+"-")
	p.check(near == "" || slices.Contains(names, name) || host, path+"."+name,
		"there is no such endpoint; did you mean %s?", near)
}

// parseByName parses numbers of endpoints: "vllm=64,default=8".
func parseByName(at func(*Config) *map[string]float64) func(*Config, string) error {
	number := func(text string) (float64, error) { return strconv.ParseFloat(text, 64) }
	return pairs(at, number, `must be pairs NAME=NUMBER such as "vllm=64,default=8"`)
}

// worded parses words of endpoints: "vllm=messages,default=auto".
func worded(at func(*Config) *map[string]string) func(*Config, string) error {
	word := func(text string) (string, error) { return text, nil }
	return pairs(at, word, `must be pairs NAME=WORD such as "vllm=messages,default=auto"`)
}

// pairs parses values of endpoints. The error is shape for other texts.
func pairs[V any](
	at func(*Config) *map[string]V,
	parse func(string) (V, error),
	shape string,
) func(*Config, string) error {
	return func(c *Config, v string) error {
		out := map[string]V{}

		for item := range strings.SplitSeq(v, ",") {
			name, text, ok := strings.Cut(strings.TrimSpace(item), "=")

			value, err := parse(text)
			if !ok || name == "" || err != nil {
				return errors.New(shape)
			}

			if _, twice := out[name]; twice {
				return fmt.Errorf("%s occurs twice", name)
			}

			out[name] = value
		}

		*at(c) = out

		return nil
	}
}
