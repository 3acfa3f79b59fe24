package trainer

import (
	"context"
	"net/http"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// Options are those of a trainer as a sink.
type Options struct {
	URL string

	// bearer token; "": none
	Token string
	// OffPolicy bounds the batches that wait for the trainer; 0: 2.
	OffPolicy float64

	// sequences of a group; at least 1
	GroupSize int
}

const defaultOffPolicy = 2

// room returns how many more groups may wait, given the number of queued sequences.
func (o Options) room(batch, queued int) int {
	most := o.OffPolicy
	if most == 0 {
		most = defaultOffPolicy
	}

	return max(0, (int(most*float64(batch))-queued)/max(o.GroupSize, 1))
}

// API is this program's trainer API. It implements delivery.Sink. The API has idempotency keys, so every
// call can be repeated.
type API struct {
	o Options
	c caller
}

// NewAPI returns the sink. It does not connect.
func NewAPI(o Options) *API { return &API{o, newCaller(o.URL, o.Token)} }

// Status returns the trainer API's report on its queue.
func (s *API) Status(ctx context.Context) (delivery.Status, error) {
	var a struct {
		Step      int  `json:"current_step"`
		Sequences *int `json:"queued_sequences"`
		Batches   int  `json:"unacknowledged_batches"`
		BatchSize int  `json:"batch_size"`
		NumSteps  int  `json:"num_steps"`
	}
	if err := s.c.do(ctx, request{method: http.MethodGet, path: "/status"}, &a); err != nil {
		return delivery.Status{}, err
	}

	if a.Sequences == nil || a.BatchSize <= 0 {
		return delivery.Status{Waiting: "no trainer has registered"}, nil
	}

	training := a.Batches * a.BatchSize
	queued := *a.Sequences + training

	out := delivery.Status{
		Ready:      true,
		Room:       s.o.room(a.BatchSize, queued),
		Step:       a.Step,
		TotalSteps: a.NumSteps,
		BatchSize:  a.BatchSize,
		Queued:     queued,
		Training:   training,
	}
	if out.Room == 0 {
		out.Waiting = "the trainer has enough batches"
	}

	return out, nil
}

// ownGroup is a group with its key.
type ownGroup struct {
	formats.Atropos
	Overrides groupOverrides `json:"group_overrides"`
}

// Deliver posts the group in Atropos' form under its key.
func (s *API) Deliver(ctx context.Context, g delivery.Group) error {
	form, err := formats.ToAtropos(g.Data)
	if err != nil {
		return err
	}

	body, err := encode(ownGroup{form, groupOverrides{g.Key, g.Lag}})
	if err != nil {
		return err
	}

	return s.c.do(ctx, request{method: http.MethodPost, path: "/scored_data", body: body, key: g.Key}, &struct{}{})
}
