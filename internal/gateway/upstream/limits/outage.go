package limits

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// NoAnswer begins the text of a request without a response.
const NoAnswer = "no answer from the endpoint: "

// askedFor is how long an outage is kept while no route uses the endpoint and no waiting rollout asks for it.
const askedFor = 5 * time.Minute

// Outage is a time in which no connection to an endpoint can be made. Its text is what people read of it in a
// rollout's state, in lists, in errors and on the page.
type Outage struct {
	Since time.Time

	// error of the first connection
	Why string

	// Answered: the endpoint has answered before, so rollouts are held until it is back.
	Answered bool

	// Patience is for how long a rollout of an endpoint that has never answered tries to connect.
	Patience time.Duration

	// Connect tries again to connect, and returns why it cannot; "": it connected.
	Connect func(context.Context) string
}

func (o Outage) String() string {
	if o.Answered {
		return o.With("it has answered before, so rollouts are held until it is back")
	}

	return o.With("it has never answered this host, so rollouts end after %s", o.Patience)
}

// With is the text of the outage with other consequences for rollouts.
func (o Outage) With(format string, args ...any) string {
	since, why := o.Since.UTC().Format(time.TimeOnly), strings.TrimPrefix(o.Why, NoAnswer)

	return fmt.Sprintf("unreachable since %s UTC (%s): %s", since, why, fmt.Sprintf(format, args...))
}

// Unreachable records that no connection can be made, and returns the outage, which may have begun earlier.
func (a *Admission) Unreachable(o Outage) Outage {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.outage == nil {
		a.log.Warn("model endpoint is unreachable", "why", o.String())
		a.outage = &o
	}
	// an engine among several may have answered meanwhile
	a.outage.Answered = a.outage.Answered || o.Answered

	return *a.outage
}

// Reached records that a connection was made.
func (a *Admission) Reached() {
	a.mu.Lock()
	defer a.mu.Unlock()

	a.endOutage()
}

// endOutage ends an outage. a.mu is held.
func (a *Admission) endOutage() {
	if a.outage != nil {
		a.log.Info("model endpoint is reachable again", "after", time.Since(a.outage.Since).Round(time.Second))
		a.outage = nil
	}
}

// Reconnect tries to connect to an endpoint that is unreachable, ends the outage if it can, and reports whether it did.
func (a *Admission) Reconnect(ctx context.Context) bool {
	a.mu.Lock()
	outage := a.outage
	a.mu.Unlock()

	if outage == nil || outage.Connect(ctx) != "" || ctx.Err() != nil {
		return false
	}

	a.Reached()

	return true
}

// Outage is the text of the outage; "": connections can be made, or none was tried.
func (a *Admission) Outage() string {
	a.mu.Lock()
	defer a.mu.Unlock()

	if a.outage == nil {
		return ""
	}

	return a.outage.String()
}

// Unreachable returns the admissions to endpoints that are unreachable.
func (g *Registry) Unreachable() []*Admission {
	g.mu.Lock()
	defer g.mu.Unlock()

	g.tidy()

	var out []*Admission

	for _, a := range g.admissions {
		if a.Outage() != "" {
			out = append(out, a)
		}
	}

	return out
}
