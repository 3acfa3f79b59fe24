package limits

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/gateway/gatewayapi"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Registry holds the admissions to all upstreams, by name. It is safe for concurrent use.
type Registry struct {
	bounds func(upstream string) Bounds

	// names that a trainer may query before their first call; none: any
	endpoints []string

	// requests that wait
	queued *prometheus.GaugeVec
	log    *slog.Logger

	mu         sync.Mutex
	admissions map[string]*Admission
	weights    weights
}

// NewRegistry returns a registry without admissions and registers its metric. bounds returns the limits of
// an upstream by name; the names of weights are kept in the file.
func NewRegistry(
	bounds func(string) Bounds,
	endpoints []string,
	file string,
	reg prometheus.Registerer,
	log *slog.Logger,
) (*Registry, error) {
	named, err := loadWeights(file)
	if err != nil {
		return nil, err
	}

	queued := promauto.With(reg).NewGaugeVec(prometheus.GaugeOpts{
		Name: "rolloutd_gateway_calls_queued", Help: "Requests that wait for admission to their model endpoint.",
	}, []string{"endpoint"})

	g := &Registry{
		bounds:     bounds,
		endpoints:  endpoints,
		queued:     queued,
		log:        log,
		admissions: map[string]*Admission{},
		weights:    named,
	}
	if reg != nil {
		err = reg.Register(collector{g})
	}

	return g, err
}

// label is the name of an upstream as a label of metrics: that of an endpoint of the configuration.
func (g *Registry) label(name string) string {
	if slices.Contains(g.endpoints, name) {
		return name
	}

	return rollout.OtherLabel
}

// Join returns the admission to an upstream and keeps it for a route.
func (g *Registry) Join(name string) *Admission {
	g.mu.Lock()
	defer g.mu.Unlock()

	a := g.admit(name)
	a.routes++

	return a
}

// Leave undoes a Join.
func (g *Registry) Leave(a *Admission) {
	g.mu.Lock()
	defer g.mu.Unlock()

	a.routes--

	g.tidy()
}

// StatusOf returns the status of an upstream, for a rollout without a route.
func (g *Registry) StatusOf(name string) gatewayapi.UpstreamStatus {
	g.mu.Lock()
	defer g.mu.Unlock()

	status := g.admit(name).status()
	g.tidy()

	return status
}

// admit finds or makes the admission to an upstream: an upstream may be paused before its first call. It
// has the bounds of its name, and the pause and the weights of its name or its address. g.mu is held.
func (g *Registry) admit(name string) *Admission {
	if a, ok := g.admissions[name]; ok {
		return a
	}

	of, address, own := strings.Cut(name, ownMark)
	a := newAdmission(g.bounds(of), g.queued.WithLabelValues(g.label(name)), g.log.With("endpoint", name))

	a.weights = g.weights.of[name]
	if own {
		a.weights = cmp.Or(a.weights, g.weights.of[address], g.weights.of[of])
		a.pauseEnd = latest(g.admit(of).status().Until, g.admit(address).status().Until)
		a.shut.extend(time.Now(), a.pauseEnd)
	}

	g.admissions[name] = a

	return a
}

// ForNamed applies do to all admissions that a trainer's name refers to, and returns them. A misspelled name
// is a fault.NotFound: otherwise the trainer would replace the weights during calls.
func (g *Registry) ForNamed(name string, do func(*Admission)) (Group, error) {
	g.mu.Lock()
	defer g.mu.Unlock()

	if !g.hasName(name) {
		return nil, fault.New(fault.NotFound,
			"no model endpoint %q: must be %s, or host:port of an endpoint given only by URL",
			name, strings.Join(g.endpoints, ", "))
	}

	all := Group{g.admit(name)}
	for other, a := range g.admissions {
		if strings.HasPrefix(other, name+ownMark) || strings.HasSuffix(other, ownMark+name) {
			all = append(all, a)
		}
	}

	for _, a := range all {
		// under the lock, so that no concurrent Join is missed
		do(a)
	}

	g.tidy()

	return all, nil
}

// tidy removes the idle admissions without routes, since every rollout may bring another address. It keeps
// those that a trainer can name only through their calls, and the counts of the configured endpoints. g.mu is held.
func (g *Registry) tidy() {
	maps.DeleteFunc(g.admissions, func(name string, a *Admission) bool {
		return a.routes == 0 && a.atRest() && !(a.faulty() && slices.Contains(g.endpoints, name)) && (g.nameable(name) || strings.Contains(name, ownMark))
	})
}

// hasName reports whether a trainer may use a name. g.mu is held.
func (g *Registry) hasName(name string) bool {
	_, called := g.admissions[name]
	return called || g.nameable(name)
}

// nameable reports whether a name is an endpoint's or may be host:port. A URL is neither: no call has such a name.
func (g *Registry) nameable(name string) bool {
	return len(g.endpoints) == 0 || slices.Contains(g.endpoints, name) ||
		strings.ContainsAny(name, ".:") && !strings.Contains(name, "/")
}

// Len returns the number of upstreams in memory.
func (g *Registry) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()

	return len(g.admissions)
}
