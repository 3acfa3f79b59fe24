package toolservice

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// Options of an episode.
type Options struct {
	// id of the sandbox
	ID string

	// the calls are of a client that grades; they have a separate log
	Scoring bool

	// bound to the sandbox
	Tools tool.Set

	// files of the sandbox
	Files Files

	// nil: the calls are not reported
	Reporter Reporter

	// tool calls; 0: no bound but that of the sandbox
	MaxSteps int

	// calls wait until Accept is called
	WaitForAccept bool
}

// Episode takes the calls of a client in one sandbox. Each call runs once by its id, and is logged before
// it is answered. Calls do not wait for each other. It is safe for concurrent use.
type Episode struct {
	o   Options
	log *stepLog

	// Table.Get returns it; guarded by the table
	accepting bool

	// sets accepting
	accept func()

	// the context of running calls
	ctx    context.Context
	cancel context.CancelFunc

	mu    sync.Mutex
	calls map[string]*call

	// calls that have ended or are running
	callCount int

	// calls that have ended
	endedCalls int
	used       []string

	// start of the last of them in the log
	lastAt time.Time

	// client that has joined; "": none
	client string

	// start of the episode on this host, or end of the latest call
	last      time.Time
	running   int
	submitted bool

	// why no more calls are taken; "": calls are taken
	closed string

	// closed when closed is set
	over    chan struct{}
	working sync.WaitGroup
}

// call is one call under its id.
type call struct {
	digest [sha256.Size]byte

	// closed when the others are final
	done chan struct{}

	// place in the log
	place place

	// it failed to run or to be logged, and may be repeated
	err error
}

func newEpisode(path string, o Options) (*Episode, error) {
	ctx, cancel := context.WithCancel(context.Background())
	e := &Episode{
		o:      o,
		ctx:    ctx,
		cancel: cancel,
		calls:  map[string]*call{},
		last:   time.Now(),
		over:   make(chan struct{}),
	}

	var err error
	if e.log, err = openLog(path, e.recovered); err != nil {
		cancel()
		return nil, err
	}

	e.callCount = e.endedCalls
	e.checkBound()

	return e, nil
}

// recovered applies a step of the log.
func (e *Episode) recovered(s episode.Step, p place) {
	switch s.Kind {
	case episode.KindJoin:
		e.client = s.Client
	case episode.KindSubmit:
		e.submitted = true
		e.finish(submitted)
	default:
		done := make(chan struct{})
		close(done)
		e.calls[s.ID] = &call{digest: digestOf(s.Tool, s.Arguments), done: done, place: p}
		e.count(s)
		e.reportStart(s.ID, s.Tool, s.Arguments)
		e.reportEnd(s)
	}
}

const submitted = "it was submitted"

// Call makes a call, or attaches to the call with that id, and returns its answer. When ctx ends, the call continues.
func (e *Episode) Call(ctx context.Context, c episode.Call) (episode.Answer, error) {
	if c.ID == "" || len(c.ID) > episode.MaxCallID {
		return episode.Answer{}, fault.Field("id", "the id of a call must have 1 to %d bytes", episode.MaxCallID)
	}

	mine, err := e.startCall(c)
	if err != nil {
		return episode.Answer{}, err
	}

	select {
	case <-mine.done:
	case <-ctx.Done():
		return episode.Answer{}, fault.Wrap(fault.Timeout, context.Cause(ctx), "wait for the call")
	}

	if mine.err != nil {
		return episode.Answer{}, mine.err
	}

	return e.answer(mine)
}

// startCall finds the call with that id, or starts it.
func (e *Episode) startCall(c episode.Call) (*call, error) {
	digest := digestOf(c.Tool, c.Arguments)

	e.mu.Lock()
	defer e.mu.Unlock()

	if err := e.checkClient(c.Client); err != nil {
		return nil, err
	}

	if old := e.calls[c.ID]; old != nil {
		if old.digest != digest {
			return nil, fault.New(fault.Conflict, "the call of this id had another tool or other arguments")
		}

		return old, nil
	}

	switch {
	case e.closed != "":
		return nil, Over(e.closed)
	case e.o.MaxSteps > 0 && e.callCount >= e.o.MaxSteps:
		return nil, Over(e.bound())
	}

	e.callCount++
	e.running++
	mine := &call{digest: digest, done: make(chan struct{})}
	e.calls[c.ID] = mine
	e.working.Go(func() { e.run(c, mine) })

	return mine, nil
}

// Over is the error of a call after an episode's end.
func Over(why string) error {
	return fault.New(fault.Conflict, "the episode has ended: %s; a reset, or a new session, begins another", why)
}

// checkClient refuses a client that is not the one that has joined. e.mu is held.
func (e *Episode) checkClient(client string) error {
	if client != "" && e.client != "" && client != e.client {
		return fault.New(fault.Conflict, "another client has joined the episode; reset with attach takes it back")
	}

	return nil
}

// run runs a call and logs it.
func (e *Episode) run(c episode.Call, mine *call) {
	began := time.Now()

	e.reportStart(c.ID, c.Tool, arguments(c.Arguments))

	result, err := e.o.Tools.Call(e.ctx, tool.Call{ID: c.ID, Name: c.Tool, Arguments: c.Arguments})
	if err == nil {
		mine.place, err = e.record(c, result, began)
	}

	e.mu.Lock()
	defer e.mu.Unlock()

	e.running--
	e.last = time.Now()
	// the id is free
	if mine.err = err; err != nil {
		delete(e.calls, c.ID)

		e.callCount--
		if e.closed != "" {
			mine.err = Over(e.closed)
		}
	}

	close(mine.done)
}

// record logs a call that has ended. Calls are numbered in the order of the log.
func (e *Episode) record(c episode.Call, r tool.Result, began time.Time) (place, error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	s := episode.Step{
		Kind:      episode.KindCall,
		Step:      e.endedCalls + 1,
		ID:        c.ID,
		Client:    c.Client,
		Tool:      c.Tool,
		Arguments: arguments(c.Arguments),
		Result:    &episode.Result{Content: r.Content, Error: r.Error, Message: r.Message, Data: r.Data},
		At:        began.UTC(),
		Seconds:   time.Since(began).Seconds(),
	}

	p, err := e.log.appendStep(s)
	if err != nil {
		return p, err
	}

	e.count(s)
	e.reportEnd(s)
	e.checkBound()

	return p, nil
}

func (e *Episode) count(s episode.Step) {
	e.endedCalls++
	e.lastAt = s.At

	if !slices.Contains(e.used, s.Tool) {
		e.used = append(e.used, s.Tool)
	}
}

// checkBound ends an episode whose calls are used up. e.mu is held.
func (e *Episode) checkBound() {
	if e.o.MaxSteps > 0 && e.endedCalls >= e.o.MaxSteps {
		e.finish(e.bound())
	}
}

func (e *Episode) bound() string {
	return fmt.Sprintf("it reached the maximum of %d steps", e.o.MaxSteps)
}

// finish ends the episode. The first reason is kept. e.mu is held.
func (e *Episode) finish(why string) {
	if e.closed == "" {
		e.closed = why
		close(e.over)
	}
}

// answer reads the answer of a call from the log.
func (e *Episode) answer(c *call) (episode.Answer, error) {
	s, err := e.log.read(c.place)
	if err != nil {
		return episode.Answer{}, err
	}

	e.mu.Lock()
	defer e.mu.Unlock()

	return episode.Answer{Result: *s.Result, Steps: s.Step, Ended: e.closed}, nil
}

// Accept begins to take calls, if the episode was opened with Held. It may be called again.
func (e *Episode) Accept() { e.accept() }

// Submit ends the episode for its client and logs the arguments. It does nothing if the episode has ended.
func (e *Episode) Submit(c episode.Call) error {
	e.mu.Lock()
	defer e.mu.Unlock()

	if err := e.checkClient(c.Client); err != nil || e.closed != "" {
		return err
	}

	if _, err := e.log.appendStep(episode.Step{
		Kind:      episode.KindSubmit,
		Client:    c.Client,
		Arguments: arguments(c.Arguments),
		At:        time.Now().UTC(),
	}); err != nil {
		return err
	}

	e.submitted = true
	e.finish(submitted)

	return nil
}

// Join makes client the only client whose calls are taken.
func (e *Episode) Join(client string) (episode.Status, error) {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.client != client && e.closed == "" {
		if _, err := e.log.appendStep(
			episode.Step{Kind: episode.KindJoin, Client: client, At: time.Now().UTC()},
		); err != nil {
			return episode.Status{}, err
		}

		e.client = client
	}

	return e.status(), nil
}

// Status returns the status of the episode.
func (e *Episode) Status() episode.Status {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.status()
}

func (e *Episode) status() episode.Status {
	s := episode.Status{
		Steps:     e.endedCalls,
		Running:   e.running,
		ToolsUsed: append([]string{}, e.used...),
		Ended:     e.closed,
	}
	if e.endedCalls > 0 {
		s.LastAt = new(e.lastAt)
	}

	return s
}

// End ends the episode for a reason.
func (e *Episode) End(why string) {
	e.mu.Lock()
	defer e.mu.Unlock()

	e.finish(why)
}

// Over is closed when the episode has ended.
func (e *Episode) Over() <-chan struct{} { return e.over }

// Ended says why the episode has ended, and whether its client has submitted it.
func (e *Episode) Ended() (why string, submitted bool) {
	e.mu.Lock()
	defer e.mu.Unlock()

	return e.closed, e.submitted
}

// IdleSince is when the latest call has ended; zero while one runs.
func (e *Episode) IdleSince() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()

	if e.running > 0 {
		return time.Time{}
	}

	return e.last
}

// Steps reports each step of the log.
func (e *Episode) Steps(each func(episode.Step)) error { return e.log.all(each) }

// close cancels the running calls, waits for them and closes the log. A command in the sandbox continues.
func (e *Episode) close() error {
	e.cancel()
	e.working.Wait()

	return e.log.close()
}

// digestOf distinguishes calls with the same id.
func digestOf(tool string, raw json.RawMessage) [sha256.Size]byte {
	return sha256.Sum256(append([]byte(tool+"\x00"), arguments(raw)...))
}

// arguments returns compact, valid JSON. Arguments that are not JSON, which the tool refuses, are logged as a string.
func arguments(raw json.RawMessage) json.RawMessage {
	if len(bytes.TrimSpace(raw)) == 0 {
		return json.RawMessage("{}")
	}

	var compact bytes.Buffer
	if json.Compact(&compact, raw) == nil {
		return compact.Bytes()
	}

	text, err := json.Marshal(string(raw))
	if err != nil {
		// strings always marshal
		panic(err)
	}

	return text
}
