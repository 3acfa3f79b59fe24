package trainer

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/trajectory/formats"
)

// Notes stores a sink's persistent state under short names.
type Notes interface {
	// fault.NotFound: none
	Load(ctx context.Context, name string, v any) error
	Save(ctx context.Context, name string, v any) error
}

// Env is the sink's registration as an environment of Atropos' trainer API.
type Env struct {
	Name string

	// longest sequence, in tokens
	MaxTokens int
	Weight    float64

	// share of each batch
	Minimum *float64
}

// Atropos is the trainer API of Atropos' own package. It implements delivery.Sink.
//
// That API has no idempotency keys. Before a send whose answer was lost is repeated, the sink looks for the
// group: in the newest queued group, and in the counters of the queue. If both are inconclusive, because
// other environments send too, it sends the group again and logs that it may be doubled.
type Atropos struct {
	o     Options
	env   Env
	c     caller
	notes Notes
	log   *slog.Logger

	// one send at a time, so that the newest queued group is usually ours
	mu  sync.Mutex
	reg *registered
}

// registered is the note of the registration.
type registered struct {
	ID int `json:"env_id"`

	// the highest step seen
	Step  int `json:"step"`
	Steps int `json:"num_steps"`
}

const registrationNote = "registration"

// NewAtropos returns the sink. It does not connect.
func NewAtropos(o Options, env Env, notes Notes, log *slog.Logger) *Atropos {
	if env.Weight == 0 {
		env.Weight = 1
	}

	return &Atropos{o: o, env: env, c: newCaller(o.URL, o.Token), notes: notes, log: log}
}

// errWaiting means that the trainer has not started.
var errWaiting = fault.New(fault.Unavailable, "the trainer has not started")

// Status registers the environment if needed, and returns how much the trainer accepts.
func (s *Atropos) Status(ctx context.Context) (delivery.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	st, batch, err := s.ready(ctx)
	if err == errWaiting { //nolint:errorlint // it is never wrapped
		return delivery.Status{Waiting: errWaiting.Msg}, nil
	}

	if err != nil {
		return delivery.Status{}, err
	}

	queued := st.Queue * max(s.o.GroupSize, 1)

	out := delivery.Status{
		Ready:      true,
		Room:       s.o.room(batch, queued),
		Step:       st.Step,
		TotalSteps: s.reg.Steps,
		BatchSize:  batch,
		Queued:     queued,
	}
	if out.Room == 0 {
		out.Waiting = "the trainer has enough batches"
	}

	return out, nil
}

// envStatus is the answer of GET /status-env.
type envStatus struct {
	Step int `json:"current_step"`

	// in groups of this environment's size
	Queue int `json:"queue_size"`
}

// ready returns the trainer's status and batch size. It registers the environment if the trainer does not
// know it: at the start, and after the trainer's restart or a reset of its data. Nothing may be sent
// before: a group before the trainer's registration makes Atropos' server unusable.
func (s *Atropos) ready(ctx context.Context) (st envStatus, batch int, err error) {
	var info struct {
		BatchSize int `json:"batch_size"`
	}
	if err := s.c.do(ctx, request{method: http.MethodGet, path: "/info"}, &info); err != nil {
		return st, 0, err
	}

	if info.BatchSize <= 0 {
		s.reg = nil
		return st, 0, firstOf(s.notes.Save(ctx, registrationNote, nil), errWaiting)
	}

	if err := s.register(ctx); err != nil {
		return st, 0, err
	}

	st, err = s.status(ctx)
	if unknown := fault.Is(err, fault.Internal) ||
		fault.Is(err, fault.NotFound); unknown ||
		err == nil && st.Step < s.reg.Step {
		// Atropos answers 500 for an unknown environment. A lower step belongs to another run.
		s.reg = nil
		if err := firstOf(s.notes.Save(ctx, registrationNote, nil), s.register(ctx)); err != nil {
			return st, 0, err
		}

		st, err = s.status(ctx)
	}

	if err == nil && st.Step > s.reg.Step {
		s.reg.Step = st.Step
		err = s.notes.Save(ctx, registrationNote, s.reg)
	}

	return st, info.BatchSize, err
}

// firstOf returns the first error.
func firstOf(all ...error) error {
	for _, err := range all {
		if err != nil {
			return err
		}
	}

	return nil
}

func (s *Atropos) status(ctx context.Context) (st envStatus, err error) {
	body, err := encode(map[string]int{"env_id": s.reg.ID})
	if err == nil {
		err = s.c.do(ctx, request{method: http.MethodGet, path: "/status-env", body: body}, &st)
	}

	return st, err
}

// register reads the registration from the notes, or registers the environment.
func (s *Atropos) register(ctx context.Context) error {
	if s.reg != nil {
		return nil
	}

	var noted *registered
	if err := s.notes.Load(ctx, registrationNote, &noted); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}

	if noted != nil {
		s.reg = noted
		return nil
	}

	body, err := encode(map[string]any{
		"max_token_length":     s.env.MaxTokens,
		"desired_name":         s.env.Name,
		"weight":               s.env.Weight,
		"group_size":           s.o.GroupSize,
		"min_batch_allocation": s.env.Minimum,
	})
	if err != nil {
		return err
	}

	var answer struct {
		Status string `json:"status"`
		ID     *int   `json:"env_id"`
		Step   int    `json:"starting_step"`
		Steps  int    `json:"num_steps"`
	}
	if err := s.c.do(ctx, request{method: http.MethodPost, path: "/register-env", body: body}, &answer); err != nil {
		return err
	}

	if answer.ID == nil {
		return errWaiting
	}

	s.reg = &registered{ID: *answer.ID, Step: answer.Step, Steps: answer.Steps}

	return s.notes.Save(ctx, registrationNote, s.reg)
}

// Disconnect tells the trainer that the environment sends nothing further. The next delivery registers it again.
func (s *Atropos) Disconnect(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()

	var noted *registered

	err := s.notes.Load(ctx, registrationNote, &noted)
	if fault.Is(err, fault.NotFound) || err == nil && noted == nil {
		return nil
	}

	if err != nil {
		return err
	}

	body, err := encode(map[string]int{"env_id": noted.ID})
	if err == nil {
		err = s.c.do(ctx, request{method: http.MethodPost, path: "/disconnect-env", body: body}, &struct{}{})
	}

	if err != nil {
		return err
	}

	s.reg = nil

	return s.notes.Save(ctx, registrationNote, nil)
}

// atroposGroup is a group with its key.
type atroposGroup struct {
	formats.Atropos
	Env       int            `json:"env_id"`
	Overrides groupOverrides `json:"group_overrides"`
}

// groupOverrides is passed through to the trainer unchanged.
type groupOverrides struct {
	Key string `json:"rolloutd_key"`

	// the lag of a group that is marked as stale
	Lag *int64 `json:"version_lag,omitempty"`
}

// sent is the note of a sent group.
type sent struct {
	Done bool `json:"done,omitempty"`

	// counter before the send
	Before counter `json:"before"`
}

// counter changes with every queued group and every batch.
type counter struct {
	Step   int `json:"current_step"`
	Groups int `json:"queue_size"`
}

// Deliver sends the group unless it was sent before.
func (s *Atropos) Deliver(ctx context.Context, g delivery.Group) error {
	if n := g.Sequences(); n != s.o.GroupSize {
		return fault.New(fault.Conflict, "group %s has %d sequences: the trainer takes groups of %d",
			g.ID, n, s.o.GroupSize)
	}

	s.mu.Lock()
	defer s.mu.Unlock()

	var before sent

	err := s.notes.Load(ctx, g.Key, &before)

	first := fault.Is(err, fault.NotFound)
	if err != nil && !first || before.Done {
		return err
	}

	if _, _, err := s.ready(ctx); err != nil {
		return err
	}

	now, err := s.counter(ctx)
	if err != nil {
		return err
	}

	if !first {
		arrived, err := s.arrived(ctx, g, before, now)
		if err != nil {
			return err
		}

		if arrived {
			return s.notes.Save(ctx, g.Key, sent{Done: true})
		}
	}

	// Producers cancel deliveries when they continue as new, and workers when they stop. A send whose answer is then lost
	// may be doubled.
	sending, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()

	if err := s.notes.Save(sending, g.Key, sent{Before: now}); err != nil {
		return err
	}

	if err := s.send(sending, g); err != nil {
		return err
	}

	return s.notes.Save(sending, g.Key, sent{Done: true})
}

// sendTimeout bounds a send and its notes.
const sendTimeout = callTimeout + time.Minute

func (s *Atropos) counter(ctx context.Context) (c counter, err error) {
	err = s.c.do(ctx, request{method: http.MethodGet, path: "/status"}, &c)
	return c, err
}

// arrived looks for a group that was sent and not acknowledged. If that is inconclusive, the group counts
// as not arrived.
func (s *Atropos) arrived(ctx context.Context, g delivery.Group, before sent, now counter) (bool, error) {
	var newest struct {
		Overrides *groupOverrides `json:"group_overrides"`
		Tokens    json.RawMessage `json:"tokens"`
	}
	if err := s.c.do(ctx, request{method: http.MethodGet, path: "/latest_example"}, &newest); err != nil {
		return false, err
	}

	if newest.Overrides != nil && newest.Overrides.Key == g.Key {
		return true, nil
	}

	if now != before.Before {
		s.log.WarnContext(ctx,
			"group is sent again and may be doubled: the answer to the send before was lost, and the trainer's queue has changed since",
			"group", g.ID, "key", g.Key)
	}

	return false, nil
}

func (s *Atropos) send(ctx context.Context, g delivery.Group) error {
	form, err := formats.ToAtropos(g.Data)
	if err != nil {
		return err
	}

	body, err := encode(atroposGroup{form, s.reg.ID, groupOverrides{g.Key, g.Lag}})
	if err != nil {
		return err
	}

	return s.c.do(ctx, request{method: http.MethodPost, path: "/scored_data", body: body, gzip: true}, &struct{}{})
}
