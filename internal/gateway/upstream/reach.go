package upstream

import (
	"cmp"
	"context"
	"net"
	"net/http"
	"net/url"
	"time"

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
