package upstream

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/upstream/limits"
	"github.com/rolloutd/rolloutd/internal/network/lostconn"
)

// reachTime bounds one connection of Reach.
const reachTime = 2 * time.Second

// Reach connects to the engines in turn, sends nothing, and returns why none could be reached. "": one was
// reached, or that cannot be tested (calls go through an HTTP proxy), or there is no engine (the agent
// makes no model calls).
func (u *Client) Reach(ctx context.Context, s Spec) string {
	why := ""

	for _, engine := range s.Engines {
		if engine == "" {
			continue
		}

		err := u.connect(ctx, engine, s.ClientGiven)
		if err == nil || ctx.Err() != nil {
			return ""
		}

		why = judgeNoAnswer(err, s.Key).Text
	}

	return why
}

// outage describes an endpoint to which no connection can be made, of a request that began at that time.
func (u *Client) outage(s *Spec, began time.Time, why string) limits.Outage {
	engines := Spec{Engines: s.Engines, Key: s.Key, ClientGiven: s.ClientGiven}

	return limits.Outage{
		Since:    began,
		Why:      why,
		Answered: u.Answered.any(s.Engines),
		Patience: u.reach,
		Connect:  func(ctx context.Context) string { return u.Reach(ctx, engines) },
	}
}

// Connect connects as Reach does, and records the outcome with the spec's admission.
func (u *Client) Connect(ctx context.Context, s Spec) {
	began := time.Now()

	switch why := u.Reach(ctx, s); {
	case ctx.Err() != nil:
	case why == "":
		s.Admission.Reached()
	default:
		s.Admission.Unreachable(u.outage(&s, began, why))
	}
}

func (u *Client) connect(ctx context.Context, engine string, guarded bool) error {
	to, err := url.Parse(engine)
	if err != nil {
		return err
	}

	if u.proxy != nil {
		if via, err := u.proxy(&http.Request{URL: to}); err != nil || via != nil {
			return nil //nolint:nilerr // a call finds out
		}
	}

	ctx, cancel := context.WithTimeout(ctx, reachTime)
	defer cancel()

	dial := lostconn.Dialer(dialTimeout).DialContext
	if guarded {
		dial = u.policy.Dial
	}

	ports := map[string]string{"http": "80", "https": "443"}

	c, err := dial(ctx, "tcp", net.JoinHostPort(to.Hostname(), cmp.Or(to.Port(), ports[to.Scheme])))
	if err != nil {
		return err
	}

	return c.Close()
}
