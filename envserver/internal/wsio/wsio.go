// Package wsio runs one WebSocket connection: frames are read at all times, so that pings are answered and a client that
// leaves is noticed, while they are answered strictly one after another. A connection at rest is one goroutine.
package wsio

import (
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/rolloutd/rolloutd/internal/intake"
)

// Close codes of RFC 6455 that we send.
const (
	CloseNormal   = websocket.CloseNormalClosure
	CloseTooLarge = websocket.CloseMessageTooBig
	closeRestart  = websocket.CloseServiceRestart
	CloseBusy     = websocket.CloseTryAgainLater
	closeInternal = websocket.CloseInternalServerErr
	closePolicy   = websocket.ClosePolicyViolation
)

// Options of a connection.
type Options struct {
	// PingEvery is the time between pings, and how long a client has to answer one before it is cut off.
	PingEvery time.Duration
	// MaxMessage is the largest message taken, in bytes.
	MaxMessage int64
	// Within is how long one may take to arrive after its first 16 KiB; 0: no bound.
	Within time.Duration
	// Memory is where frames are read into. A frame that it has no room for, or that is too large, is read to its end and dropped.
	Memory intake.Share
	// Refuse answers such a frame, in its turn.
	Refuse func(error) Answer
	// CloseCode is sent when Run's context ends; default 1012 (the service restarts).
	CloseCode int
	// Gone is the cause with which the context of an Answer's Later ends when the client leaves.
	Gone error
	// GaveUp is that cause when the client sends its next request, GiveUp or more after the one under way, and has never sent ahead.
	GaveUp error
	GiveUp time.Duration // default 1 s; negative: every client that sends its next request has given up
}

// Handler answers one frame. It must be quick: nothing is read meanwhile.
type Handler func(frame []byte) Answer

// frame is one message of the client, or why it was not taken.
type frame struct {
	data    []byte
	err     error
	release func() // gives its memory back; nil where there is an error
	turn    *turn  // nil: it is answered at once
}

// Answer is what becomes of a frame.
type Answer struct {
	// Reply is sent as one message, piece after piece; nil for none.
	Reply [][]byte
	// Holds is what must not be collected until Reply is written.
	Holds any
	// Later, where set, makes the answer instead and may take its time. Its context ends with the connection.
	Later func(context.Context) Answer
	// Named: the reply names its request. A client that sends its next request meanwhile is answered at once, and gets this reply later.
	Named bool
	// Close ends the connection with this code, after the reply; 0: it goes on.
	Close int
}

type conn struct {
	ws     *websocket.Conn
	o      Options
	handle Handler
	life   context.Context // Run's; what Later is called with is made from it

	received atomic.Bool // since the last ping
	ending   atomic.Bool // a close frame was sent, or tried
	closing  sync.Mutex  // held to set ending, and to set a deadline where it is not set

	backlog backlog
	turns   turns
	writing sync.Mutex // of messages: a reply that was overtaken is written when it is there
	worker  sync.WaitGroup
	working context.Context // of the workers; nil before the first. The reader's own, as is cancel
	cancel  context.CancelCauseFunc
}

// Run answers frames until the client leaves, an answer ends the connection, or ctx ends. It closes ws.
func Run(ctx context.Context, ws *websocket.Conn, o Options, h Handler) {
	if o.GiveUp == 0 {
		o.GiveUp = time.Second
	}
	c := &conn{ws: ws, o: o, handle: h, life: ctx}
	stopPings := c.keepAlive()
	stopWatch := context.AfterFunc(ctx, c.farewell)
	c.read()
	stopWatch()
	if c.cancel != nil {
		c.cancel(o.Gone)
	}
	_ = ws.Close() // also ends a write that the client does not read
	c.worker.Wait()
	if c.cancel != nil {
		c.cancel(nil)
	}
	stopPings()
}

// read answers frames, or has them wait their turn, until the connection ends. The library has answered a close frame.
func (c *conn) read() {
	for {
		frame, err := c.frame()
		if err != nil {
			return
		}
		if late := c.turns.next(c.o.GiveUp); late != nil {
			c.overtake(late)
		}
		if !c.backlog.put(frame, &c.turns) {
			c.take(frame)
		}
		c.received.Store(true) // not before: it may have waited for room
	}
}

// overtake lets the next frame go past an answer that the client no longer waits for. One that names its request is sent when it is
// there; any other is ended and dropped, and its worker goes on with the next frame.
func (c *conn) overtake(late *turn) {
	if !late.named {
		late.cancel(c.o.GaveUp)
		return
	}
	c.backlog.shut()
}

// frame reads the next frame. One that is not taken is read to its end all the same: a client that still sends reads no answer.
func (c *conn) frame() (frame, error) {
	_, next, err := c.ws.NextReader()
	if err != nil {
		return frame{}, err
	}
	r := &bounded{r: next, c: c}
	defer r.arrived()
	data, release, err := c.o.Memory.Read(r, c.o.MaxMessage)
	var large *intake.TooLargeError
	if errors.As(err, &large) || errors.Is(err, intake.ErrBusy) {
		_, broken := io.Copy(io.Discard, r)
		return frame{err: err}, broken
	}
	return frame{data: data, release: release}, err
}

// answer has a frame answered, and gives its memory back.
func (c *conn) answer(f frame) Answer {
	if f.err != nil {
		return c.o.Refuse(f.err)
	}
	defer f.release()
	return c.handle(f.data)
}

// drop gives the memory of a frame back that is not answered.
func (f frame) drop() {
	if f.release != nil {
		f.release()
	}
}

// take answers a frame on the reader's own goroutine, which saves a session at rest a second one and a quick answer the way
// to it. An answer that takes long gets a goroutine, which then answers what comes meanwhile.
func (c *conn) take(f frame) {
	if c.ending.Load() { // what comes after the goodbye is only read to get at the client's own
		f.drop()
		return
	}
	a := c.answer(f)
	if a.Later == nil {
		c.say(a)
		return
	}
	if c.working == nil {
		c.working, c.cancel = context.WithCancelCause(c.life)
	}
	c.backlog.open()
	one := c.turns.arrive()
	c.turns.start(c.working, one, a.Named)
	c.worker.Go(func() { c.work(one, a) })
}

// work gives an answer, and answers what was queued meanwhile until nothing is, or until another worker has the backlog.
func (c *conn) work(one *turn, a Answer) {
	for c.finish(one, a) {
		next, more := c.backlog.next()
		if !more {
			return
		}
		one, a = next.turn, c.begin(next)
	}
}

// begin answers a frame from the backlog. An answer that takes long, which finish then makes, has its context.
func (c *conn) begin(f frame) Answer {
	if c.ending.Load() || c.working.Err() != nil {
		f.drop()
		return Answer{}
	}
	a := c.answer(f)
	if a.Later == nil {
		return a
	}
	wanted := c.turns.start(c.working, f.turn, a.Named)
	switch {
	case wanted:
	case a.Named: // the requests after it do not wait
		c.worker.Go(func() { c.finish(f.turn, a) })
		return Answer{}
	default:
		f.turn.cancel(c.o.GaveUp)
	}
	return a
}

// finish makes an answer that takes long, and sends the answer unless the client no longer waits for it. It reports whether the worker has
// the backlog still.
func (c *conn) finish(one *turn, a Answer) bool {
	named := a.Named
	if a.Later != nil {
		a = a.Later(one.ctx)
		defer one.cancel(nil)
	}
	wanted, passed := c.turns.end(one)
	if !wanted && !named {
		a.Reply = nil
	}
	if c.working.Err() == nil {
		c.say(a)
	}
	return !passed
}

// say sends a reply, and the goodbye.
func (c *conn) say(a Answer) {
	c.writing.Lock()
	defer c.writing.Unlock()
	if a.Reply != nil {
		err := c.write(a.Reply)
		runtime.KeepAlive(a.Holds)
		if err != nil {
			_ = c.ws.Close() // ends the reader
			return
		}
		c.received.Store(true) // a long write is a sign of life, too
	}
	if a.Close != 0 {
		c.end(a.Close, "")
	}
}

// stretch is how much of a large reply is written at a time, in bytes.
const stretch = 64 << 10

// write sends one message. One of several pieces, which are not copied together, becomes several frames, and what the client
// takes of them is a sign of life: it may be slow.
func (c *conn) write(pieces [][]byte) error {
	if len(pieces) == 1 {
		return c.ws.WriteMessage(websocket.TextMessage, pieces[0])
	}
	w, err := c.ws.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}
	for _, piece := range pieces {
		for part := range slices.Chunk(piece, stretch) {
			if _, err := w.Write(part); err != nil {
				return err
			}
			c.received.Store(true)
		}
	}
	return w.Close()
}
