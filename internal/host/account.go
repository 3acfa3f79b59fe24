package host

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

const (
	// maxOvertaken is how many later claims may take room before a claim that does not fit yet. After them,
	// room is kept for it.
	maxOvertaken = 8
	// awayTime is how long a claim keeps its place after its activity has returned to Temporal, which
	// retries it within mostReturn.
	awayTime = 3 * mostReturn
)

// Account is the room of a machine that the sandboxes of its backends share. The capacities of the backends
// have its lock and its order of claims.
type Account struct {
	// zero fields are unbounded
	total rollout.Resources

	mu      sync.Mutex
	members []*Capacity

	// in order of arrival
	claims []*claim
	// released is closed, and replaced, when a slot or a claim is released.
	released chan struct{}
}

// NewAccount makes the account of a machine; total bounds the sandboxes of all its backends together, zero
// fields do not.
func NewAccount(total rollout.Resources) *Account {
	return &Account{total: total, released: make(chan struct{})}
}

// signal wakes all waiters. a.mu is held.
func (a *Account) signal() {
	close(a.released)
	a.released = make(chan struct{})
}

func (a *Account) waiter() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()

	return a.released
}

// tally is what the sandboxes of one backend use.
type tally struct {
	sandboxes []driver.Info
	n         int
	sum       rollout.Resources

	// sandboxes by the owner of their rollout
	owners map[string]int
}

// ledger is the use of an account: living sandboxes, and granted claims whose sandbox is not listed yet.
type ledger struct {
	account *Account
	of      map[*Capacity]*tally
	all     rollout.Resources
}

// ledger counts the use for a member. If another member cannot list its sandboxes, or could not lately and slowly, those
// of its last list count. a.mu is held.
func (a *Account) ledger(ctx context.Context, reader *Capacity) (*ledger, error) {
	l := &ledger{account: a, of: map[*Capacity]*tally{}}
	for _, c := range a.members {
		sandboxes, err := c.sandboxes(ctx, c == reader)
		if err != nil {
			return nil, err
		}

		l.count(c, sandboxes)
	}

	a.dropAway()

	for _, m := range a.claims {
		if m.granted && !l.lists(m) {
			l.add(m.of, m.owner, m.size)
		}
	}

	return l, nil
}

// count adds the sandboxes of a backend.
func (l *ledger) count(c *Capacity, sandboxes []driver.Info) {
	l.of[c] = &tally{sandboxes: sandboxes, owners: map[string]int{}}

	for _, info := range sandboxes {
		switch info.Labels[driver.LabelPurpose] {
		case driver.PurposeAgent:
			l.add(c, info.Labels[driver.LabelOwner], c.sizeOf(info))
		case driver.PurposeService:
			// those of a verifier take the place of the agent's, as its own sandbox does
			if info.Labels[driver.LabelBeside] == driver.PurposeAgent {
				l.addSize(c, c.sizeOf(info))
			}
		}
	}
}

// dropAway removes the claims that have not returned in time: another host has taken them. a.mu is held.
func (a *Account) dropAway() {
	a.claims = slices.DeleteFunc(a.claims, func(m *claim) bool {
		return !m.leftAt.IsZero() && time.Since(m.leftAt) > awayTime
	})
}

// lists reports whether the sandbox of a claim lives.
func (l *ledger) lists(m *claim) bool {
	return slices.ContainsFunc(l.of[m.of].sandboxes, func(i driver.Info) bool {
		return i.ID == m.id && i.Labels[driver.LabelPurpose] == driver.PurposeAgent
	})
}

func (l *ledger) add(c *Capacity, owner string, size rollout.Resources) {
	t := l.of[c]
	t.n++
	t.owners[owner]++

	l.addSize(c, size)
}

// addSize adds what a sandbox uses that takes no slot.
func (l *ledger) addSize(c *Capacity, size rollout.Resources) {
	l.of[c].sum = l.of[c].sum.Plus(size)
	l.all = l.all.Plus(size)
}

// fits reports whether a size fits beside the use.
func (l *ledger) fits(c *Capacity, size rollout.Resources) bool {
	return l.of[c].sum.Plus(size).Within(c.o.Total) && l.all.Plus(size).Within(l.account.total)
}

// reserve adds the waiting claims before mine, all if it is nil, that fit or were overtaken too often, and
// returns the others, which mine may overtake.
func (l *ledger) reserve(mine *claim) (overtaken []*claim) {
	for _, m := range l.account.claims {
		switch {
		case m == mine:
			return overtaken
		case m.granted:
		case m.overtaken >= maxOvertaken || l.fits(m.of, m.size):
			l.add(m.of, m.owner, m.size)
		default:
			overtaken = append(overtaken, m)
		}
	}

	return overtaken
}
