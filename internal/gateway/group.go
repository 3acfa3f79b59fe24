package gateway

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// ownMark stands between an endpoint's name and the address of a server that a rollout gave under it; see rollout.Model.Upstream.
const ownMark = "@"

// group is what a name stands for: the admission to the endpoint itself, and those to the servers that rollouts gave under its name;
// of host:port, to that server under whatever name.
type group []*admission

// statusOf tells how an upstream stands, for a rollout that has no route yet.
func (s *Server) statusOf(name string) UpstreamStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.admit(name).status()
	s.tidy()
	return status
}

// admit finds the admission to an upstream, or makes it: an upstream may be paused before its first call. One under a name has that
// name's bounds, and the pause of its name or its address. s.mu is held.
func (s *Server) admit(name string) *admission {
	if a, ok := s.admissions[name]; ok {
		return a
	}
	of, address, own := strings.Cut(name, ownMark)
	a := newAdmission(s.options.Bounds(of), s.report, s.log.With("endpoint", name))
	if own {
		a.paused = latest(s.admit(of).status().Until, s.admit(address).status().Until)
	}
	s.admissions[name] = a
	return a
}

// meant does something to all that a trainer names, and returns it. A misspelt name must not pass for an upstream at rest: the
// trainer would replace the weights under calls that go on.
func (s *Server) meant(req *http.Request, do func(*admission)) (group, error) {
	name := req.PathValue("name")
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.known(name) {
		return nil, fault.New(fault.NotFound, "no model endpoint %q: want %s, or host:port of one that is given by its URL alone",
			name, strings.Join(s.options.Endpoints, ", "))
	}
	g := group{s.admit(name)}
	for other, a := range s.admissions {
		if strings.HasPrefix(other, name+ownMark) || strings.HasSuffix(other, ownMark+name) {
			g = append(g, a)
		}
	}
	for _, a := range g {
		do(a) // under the lock: one that comes meanwhile is not passed over
	}
	s.tidy()
	return g, nil
}

// tidy forgets the admissions that no route has and that are at rest: every rollout may be given another address. One that a trainer
// would not be believed to mean, were it not for its calls, is kept. s.mu is held.
func (s *Server) tidy() {
	maps.DeleteFunc(s.admissions, func(name string, a *admission) bool {
		return a.routes == 0 && a.atRest() && (s.named(name) || strings.Contains(name, ownMark))
	})
}

// known says whether a name may be meant; s.mu is held.
func (s *Server) known(name string) bool {
	_, called := s.admissions[name]
	return called || s.named(name)
}

// named says whether a name is an endpoint's, or may be host:port. A URL is none: no calls are made under it.
func (s *Server) named(name string) bool {
	names := s.options.Endpoints
	return len(names) == 0 || slices.Contains(names, name) || strings.ContainsAny(name, ".:") && !strings.Contains(name, "/")
}

func (g group) clear() {
	for _, a := range g {
		a.clear()
	}
}

// drained returns when no request of any is under way, or wait is over.
func (g group) drained(ctx context.Context, wait time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for _, a := range g {
		if err := a.drained(ctx); err != nil {
			return err
		}
	}
	return nil
}

// status sums up. All are paused together or, one by its own name, apart: then the whole is not.
func (g group) status() UpstreamStatus {
	sum := g[0].status()
	for _, a := range g[1:] {
		one := a.status()
		sum.InFlight += one.InFlight
		sum.Queued += one.Queued
		sum.HeldUntil = latest(sum.HeldUntil, one.HeldUntil)
		if sum.Busy == "" {
			sum.Busy = one.Busy
		}
		if !one.Paused {
			sum.Paused, sum.Until = false, time.Time{}
		}
	}
	return sum
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
