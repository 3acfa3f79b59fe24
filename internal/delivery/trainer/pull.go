package trainer

import (
	"context"
	"net/http"
	"net/url"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// Pull is a pull queue of the trainer API. It implements delivery.Sink.
type Pull struct {
	o Options

	// maximum of waiting groups; 0: none
	most  int
	c     caller
	queue string
}

// NewPull returns the sink of a queue with a maximum of waiting groups; 0: none. It does not connect.
func NewPull(o Options, queue string, most int) *Pull {
	return &Pull{o: o, most: most, c: newCaller(o.URL, o.Token), queue: queue}
}

func (s *Pull) path() string { return "/queues/" + url.PathEscape(s.queue) }

// Status returns how many more groups may wait.
func (s *Pull) Status(ctx context.Context) (delivery.Status, error) {
	var a struct {
		Waiting int `json:"waiting"`
	}
	if err := s.c.do(ctx, request{method: http.MethodGet, path: s.path()}, &a); err != nil {
		return delivery.Status{}, err
	}

	out := delivery.Status{Ready: true, Room: delivery.Unbounded}
	if s.most > 0 {
		out.Room = max(0, s.most-a.Waiting)
	}

	if out.Room == 0 {
		out.Waiting = "enough groups wait to be pulled"
	}

	return out, nil
}

// pulledGroup is a group in its pulled form.
type pulledGroup struct {
	delivery.Group
	Rollouts []pulledRollout `json:"rollouts"`
}

type pulledRollout struct {
	RolloutID string          `json:"rollout_id"`
	Outcome   rollout.Outcome `json:"outcome"`
	Reward    float64         `json:"reward"`
	formats.Standing
	Sequences []sequence.Sequence `json:"sequences"`
}

// Deliver pushes the group, with all of its sequences, under its key.
func (s *Pull) Deliver(ctx context.Context, g delivery.Group) error {
	out := pulledGroup{Group: g}
	for i, sibling := range g.Siblings {
		out.Rollouts = append(out.Rollouts, pulledRollout{
			sibling.RolloutID, sibling.Outcome, sibling.Reward, g.Data[i].Standing,
			g.Data[i].Trajectory.Sequences,
		})
	}
	// the rollouts
	out.Group.Siblings = nil

	body, err := encode(out)
	if err != nil {
		return err
	}

	return s.c.do(ctx, request{
		method: http.MethodPost,
		path:   s.path() + "/groups",
		body:   body,
		key:    g.Key,
	}, &struct{}{})
}
