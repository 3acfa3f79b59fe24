package gateway

import (
	"context"
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

// admission finds the admission to an upstream, or makes it: an upstream may be paused before its first call.
func (s *Server) admission(name string) *admission {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.admit(name)
}

// admit is admission; s.mu is held. One under a name has that name's bounds, and the pause of its name or its address.
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
	return g, nil
}

// known says whether a name may be meant; a URL may not, for which nothing is asked. s.mu is held.
func (s *Server) known(name string) bool {
	_, called := s.admissions[name]
	names := s.options.Endpoints
	return called || len(names) == 0 || slices.Contains(names, name) || strings.ContainsAny(name, ".:") && !strings.Contains(name, "/")
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
