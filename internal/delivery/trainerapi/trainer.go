package trainerapi

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/internal/delivery/queue"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// registerBody has pointers for members that Atropos requires.
type registerBody struct {
	WandbGroup     *string `json:"wandb_group"`
	WandbProject   *string `json:"wandb_project"`
	BatchSize      *int    `json:"batch_size"`
	MaxTokenLen    *int    `json:"max_token_len"`
	CheckpointDir  *string `json:"checkpoint_dir"`
	SaveCheckpoint *int    `json:"save_checkpoint_interval"`
	StartingStep   *int    `json:"starting_step"`
	NumSteps       *int    `json:"num_steps"`
}

func (b registerBody) registration() (queue.Registration, error) {
	err := errors.Join(
		required("wandb_group", b.WandbGroup),
		required("wandb_project", b.WandbProject),
		required("checkpoint_dir", b.CheckpointDir),
		requiredSmall("batch_size", b.BatchSize),
		requiredSmall("max_token_len", b.MaxTokenLen),
		requiredSmall("save_checkpoint_interval", b.SaveCheckpoint),
		requiredSmall("starting_step", b.StartingStep),
		requiredSmall("num_steps", b.NumSteps),
	)
	if err != nil {
		return queue.Registration{}, err
	}

	return queue.Registration{
		WandbGroup:     *b.WandbGroup,
		WandbProject:   *b.WandbProject,
		BatchSize:      *b.BatchSize,
		MaxTokenLen:    *b.MaxTokenLen,
		CheckpointDir:  *b.CheckpointDir,
		SaveCheckpoint: *b.SaveCheckpoint,
		StartingStep:   *b.StartingStep,
		NumSteps:       *b.NumSteps,
	}, nil
}

func (s *server) register(w http.ResponseWriter, r *http.Request) {
	var body registerBody
	if !s.decode(w, r, &body) {
		return
	}

	release, ok := s.awaitPlain(r)
	if !ok {
		return
	}
	defer release()

	reg, err := body.registration()
	if err == nil {
		err = s.q.Register(reg)
	}

	if err != nil {
		s.refuse(w, err)
		return
	}

	if c := s.q.Counts(); c.Unfit > 0 {
		s.log.Warn("queued groups can never fill a batch of this trainer", "groups", c.Unfit,
			"batch_size", reg.BatchSize)
	}

	//nolint:gosec // no secret; every JSON reader takes it as it is
	s.answer(w, map[string]uint64{"uuid": rand.Uint64N(1 << 53)})
}

func (s *server) info(w http.ResponseWriter, _ *http.Request) {
	out := map[string]int{"batch_size": -1, "max_token_len": -1}
	if t := s.q.Trainer(); t != nil {
		out = map[string]int{"batch_size": t.BatchSize, "max_token_len": t.MaxTokenLen}
	}

	s.answer(w, out)
}

func (s *server) wandbInfo(w http.ResponseWriter, _ *http.Request) {
	out := map[string]*string{"group": nil, "project": nil}
	if t := s.q.Trainer(); t != nil {
		out = map[string]*string{"group": &t.WandbGroup, "project": &t.WandbProject}
	}

	s.answer(w, out)
}

// statusAnswer has Atropos' two members and others.
type statusAnswer struct {
	Step      int `json:"current_step"`
	Groups    int `json:"queue_size"`
	Sequences int `json:"queued_sequences"`

	// groups that can never fill a batch of this trainer
	Unfit    int `json:"unfit_groups"`
	Buffered int `json:"buffered_sequences"`
	Unacked  int `json:"unacknowledged_batches"`

	// "": a trainer's request
	WaitsFor string `json:"next_batch_waits_for"`

	// -1: none
	BatchSize int `json:"batch_size"`
	NumSteps  int `json:"num_steps"`
}

func (s *server) status(w http.ResponseWriter, _ *http.Request) {
	c := s.q.Counts()

	out := statusAnswer{
		Step:      c.Step,
		Groups:    c.Groups,
		Sequences: c.Sequences,
		Unfit:     c.Unfit,
		Buffered:  c.Buffered,
		Unacked:   c.Batches,
		WaitsFor:  c.WaitsFor,
		BatchSize: -1,
		NumSteps:  -1,
	}
	if t := s.q.Trainer(); t != nil {
		out.BatchSize, out.NumSteps = t.BatchSize, t.NumSteps
	}

	s.answer(w, out)
}

func (s *server) batch(w http.ResponseWriter, r *http.Request) {
	lease, err := leaseOf(r)
	if err != nil {
		s.refuse(w, err)
		return
	}

	if !lease.Explicit {
		release, ok := s.awaitPlain(r)
		if !ok {
			return
		}
		defer release()
	}

	s.serveBatch(w, r, lease)
}

// awaitPlain holds plain until release is called; false: the client is gone.
func (s *server) awaitPlain(r *http.Request) (release func(), ok bool) {
	select {
	case s.plain <- struct{}{}:
		return func() { <-s.plain }, true
	case <-r.Context().Done():
		return nil, false
	}
}

// serveTimeout bounds a client's read of a batch.
const serveTimeout = 5 * time.Minute

func (s *server) serveBatch(w http.ResponseWriter, r *http.Request, lease queue.Lease) {
	b, ok, err := s.q.Take(lease)
	switch {
	case errors.Is(err, queue.ErrNoTrainer):
		s.answer(w, map[string]any{"status": "error", "message": err.Error(), "batch": []int{}})
		return
	case err != nil:
		s.refuse(w, err)
		return
	case !ok:
		s.answer(w, map[string]any{"batch": nil})
		return
	}
	// only a test's writer has no deadlines
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(serveTimeout))
	if err := serve(w, b); err != nil || lease.Explicit {
		// a client that did not get the whole batch gets it again
		return
	}

	if err := s.q.Served(b.ID); err != nil {
		s.log.Error("batch will be served again", "batch", b.ID, "error", err)
	}
}

// leaseOf reads the lease from the query: ack=explicit, client=NAME and lease_s=SECONDS.
func leaseOf(r *http.Request) (queue.Lease, error) {
	q := r.URL.Query()

	l := queue.Lease{Explicit: q.Get("ack") == "explicit", Client: q.Get("client")}
	if v := q.Get("ack"); v != "" && !l.Explicit {
		return l, fault.Field("ack", "must be explicit or empty, got %q", v)
	}

	if len(l.Client) > 100 {
		return l, fault.Field("client", "must have at most 100 bytes, got %d", len(l.Client))
	}

	seconds, err := secondsOf(r)
	l.For = seconds

	return l, err
}

func secondsOf(r *http.Request) (time.Duration, error) {
	v := r.URL.Query().Get("lease_s")
	if v == "" {
		return 0, nil
	}

	n, err := strconv.ParseFloat(v, 64)
	if err != nil || !(n >= 0 && n <= 7*24*3600) {
		return 0, fault.Field("lease_s", "must be seconds from 0 to 604800, got %q", v)
	}

	return time.Duration(n * float64(time.Second)), nil
}

// serve writes a batch: its groups unchanged, and its id.
func serve(w http.ResponseWriter, b queue.Batch) error {
	tail := fmt.Sprintf(`],"batch_id":%d}`, b.ID)

	size := len(`{"batch":[`) + len(tail) + max(len(b.Groups)-1, 0)
	for _, g := range b.Groups {
		size += len(g)
	}

	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(size))

	write := func(data []byte) error { _, err := w.Write(data); return err }
	if err := write([]byte(`{"batch":[`)); err != nil {
		return err
	}

	for i, g := range b.Groups {
		if i > 0 {
			if err := write([]byte{','}); err != nil {
				return err
			}
		}

		if err := write(g); err != nil {
			return err
		}
	}

	if err := write([]byte(tail)); err != nil {
		return err
	}

	return http.NewResponseController(w).Flush()
}

func (s *server) ack(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.ParseUint(chi.URLParam(r, "id"), 10, 64)
	if err != nil {
		err = fault.New(fault.NotFound, "no batch %q", chi.URLParam(r, "id"))
	} else {
		err = s.q.Ack(id)
	}

	if err != nil {
		s.refuse(w, err)
		return
	}

	s.answer(w, map[string]string{"status": "acknowledged"})
}

func (s *server) latest(w http.ResponseWriter, _ *http.Request) {
	data, err := s.q.Latest()
	switch {
	case err != nil:
		s.refuse(w, err)
	case data == nil:
		out := map[string][]int{}
		for _, name := range []string{
			"tokens", "masks", "scores", "advantages", "ref_logprobs", "generation_params",
			"inference_logprobs", "messages", "images",
		} {
			out[name] = []int{}
		}

		s.answer(w, out)
	default:
		w.Header().Set("Content-Type", "application/json")
		// the client may be gone
		_, _ = w.Write(data)
	}
}

func (s *server) reset(w http.ResponseWriter, _ *http.Request) {
	if err := s.q.Reset(); err != nil {
		s.refuse(w, err)
		return
	}

	s.log.Info("all data of the trainer was reset")
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	// the client may be gone
	_, _ = w.Write([]byte("Reset successful"))
}
