// Package wsio runs one WebSocket connection. It reads frames at all times, so that it answers pings and
// detects a client that disconnects, and answers them strictly one after another. An idle connection is one
// goroutine.
package wsio

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gorilla/websocket"

	"github.com/rolloutd/rolloutd/internal/input/membudget"
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
	// PingEvery is the time between pings, and how long a client has to answer one before its connection ends.
	PingEvery time.Duration
	// MaxMessage is the largest accepted message, in bytes.
	MaxMessage int64
	// MessageTimeout is how long a message may take to arrive after its first 16 KiB; 0: no bound.
	MessageTimeout time.Duration
	// Memory holds the frames. A frame that is too large, or for which there is no memory, is read to its
	// end and dropped.
	Memory membudget.Share
	// Refuse answers such a frame, in order.
	Refuse func(error) Answer
	// CloseCode is sent when Run's context ends; default 1012 (the service restarts).
	CloseCode int
	// ErrGone is the cause with which the context of Answer.Later ends when the client disconnects.
	ErrGone error
	// ErrGaveUp is that cause when a client that never sent ahead sends its next request GiveUpAfter or
	// more after the one under way.
	ErrGaveUp error

	// default 1 s; negative: every client that sends its next request has given up
	GiveUpAfter time.Duration
}

// Handler answers one frame. It must be quick: the connection reads nothing meanwhile.
type Handler func(frame []byte) Answer

// frame is one message of the client, or the reason why it was refused.
type frame struct {
	data []byte
	err  error

	// releases its memory; nil where there is an error
	release func()

	// nil: it is answered at once
	request *request
}

// Answer is the reaction to a frame.
type Answer struct {
	// Reply is sent as one message, piece after piece; nil: none.
	Reply [][]byte
	// KeepAlive is what must not be collected until Reply is written.
	KeepAlive any
	// Later, where set, computes the answer and may take long. Its context ends with the connection.
	Later func(context.Context) Answer
	// Named: the reply names its request. A client that sends its next request meanwhile gets that answer
	// at once, and this reply later.
	Named bool
	// Close ends the connection with this code, after the reply; 0: the connection stays open.
	Close int
}

type conn struct {
	ws     *websocket.Conn
	o      Options
	handle Handler

	// Run's, the parent of workCtx
	runCtx context.Context

	// since the last ping
	received atomic.Bool

	// a close frame was sent, or tried
	closeSent atomic.Bool

	// guards setting closeSent, and setting a deadline while it is false
	closeMu sync.Mutex

	backlog  backlog
	requests requests

	// held while a message is written: a late named reply is written from a goroutine of its own
	writeMu sync.Mutex
	worker  sync.WaitGroup

	// the workers' context; nil before the first. Set by the reader, as is cancelWork
	workCtx    context.Context
	cancelWork context.CancelCauseFunc
}

// Run answers frames until the client leaves, an answer ends the connection, or ctx ends. It closes ws.
func Run(ctx context.Context, ws *websocket.Conn, o Options, h Handler) {
	if o.GiveUpAfter == 0 {
		o.GiveUpAfter = time.Second
	}

	c := &conn{ws: ws, o: o, handle: h, runCtx: ctx}
	stopPings := c.keepAlive()
	stopWatch := context.AfterFunc(ctx, c.closeOnShutdown)
	c.read()
	stopWatch()

	if c.cancelWork != nil {
		// A client that answers the close of a server that stops has not left. workCtx may not have ended yet.
		c.cancelWork(cmp.Or(context.Cause(ctx), o.ErrGone))
	}
	// also unblocks a write that the client does not read
	_ = ws.Close()

	c.worker.Wait()

	if c.cancelWork != nil {
		c.cancelWork(nil)
	}

	stopPings()
}

// read answers or queues frames until the connection ends. The library answers a close frame.
func (c *conn) read() {
	for {
		frame, err := c.frame()
		if err != nil {
			return
		}

		if stale := c.requests.nextArrived(c.o.GiveUpAfter); stale != nil {
			c.abandon(stale)
		}

		if !c.backlog.queueFrame(frame, &c.requests) {
			c.answerNow(frame)
		}
		// after add, which may have waited for room
		c.received.Store(true)
	}
}

// abandon handles an answer that the client no longer waits for. An answer that names its request is sent
// when it is ready, and does not delay the next frame. Any other answer is canceled and dropped, and its
// worker continues with the next frame.
func (c *conn) abandon(stale *request) {
	if !stale.hasID {
		stale.cancel(c.o.ErrGaveUp)
		return
	}

	c.backlog.detachWorker()
}

// frame reads the next frame. It reads a refused frame to its end, because a client that still sends reads no answer.
func (c *conn) frame() (frame, error) {
	_, next, err := c.ws.NextReader()
	if err != nil {
		return frame{}, err
	}

	r := &timedReader{r: next, c: c}
	defer r.lift()

	data, release, err := c.o.Memory.Read(r, c.o.MaxMessage)

	var large *membudget.TooLargeError
	if errors.As(err, &large) || errors.Is(err, membudget.ErrBusy) {
		_, broken := io.Copy(io.Discard, r)
		return frame{err: err}, broken
	}

	return frame{data: data, release: release}, err
}

// answer calls the handler with a frame and releases the frame's memory.
func (c *conn) answer(f frame) Answer {
	if f.err != nil {
		return c.o.Refuse(f.err)
	}
	defer f.release()

	return c.handle(f.data)
}

// freeMemory releases the memory of a frame that is not answered.
func (f frame) freeMemory() {
	if f.release != nil {
		f.release()
	}
}

// answerNow answers a frame on the reader's goroutine, so that an idle session needs no second one and a
// quick answer no hand-over. An answer that takes long gets a worker goroutine, which then also answers the
// frames that arrive meanwhile.
func (c *conn) answerNow(f frame) {
	// frames after our close frame are only read to reach the client's close frame
	if c.closeSent.Load() {
		f.freeMemory()
		return
	}

	a := c.answer(f)
	if a.Later == nil {
		c.send(a)
		return
	}

	if c.workCtx == nil {
		c.workCtx, c.cancelWork = context.WithCancelCause(c.runCtx)
	}

	c.backlog.attachWorker()
	req := c.requests.track()
	c.requests.start(c.workCtx, req, a.Named)
	c.worker.Go(func() { c.work(req, a) })
}

// work sends an answer and then answers the queued frames. It returns when the queue is empty or another
// worker has taken it over.
func (c *conn) work(req *request, a Answer) {
	for c.complete(req, a) {
		next, more := c.backlog.nextFrame()
		if !more {
			return
		}

		req, a = next.request, c.answerFrame(next)
	}
}

// answerFrame answers a frame from the backlog. For an answer that takes long it makes the context; complete
// computes the answer.
func (c *conn) answerFrame(f frame) Answer {
	if c.closeSent.Load() || c.workCtx.Err() != nil {
		f.freeMemory()
		return Answer{}
	}

	a := c.answer(f)
	if a.Later == nil {
		return a
	}

	wanted := c.requests.start(c.workCtx, f.request, a.Named)
	switch {
	case wanted:
	case a.Named: // later requests do not wait for it
		c.worker.Go(func() { c.complete(f.request, a) })
		return Answer{}
	default:
		f.request.cancel(c.o.ErrGaveUp)
	}

	return a
}

// complete computes an answer that takes long, and sends the answer unless the client no longer waits for
// it. It reports whether its worker still serves the backlog.
func (c *conn) complete(req *request, a Answer) bool {
	named := a.Named
	if a.Later != nil {
		a = a.Later(req.ctx)
		defer req.cancel(nil)
	}

	wanted, bypassed := c.requests.recordAnswer(req)
	if !wanted && !named {
		a.Reply = nil
	}

	if c.workCtx.Err() == nil {
		c.send(a)
	}

	return !bypassed
}

// send writes the reply and, where the answer closes the connection, the close frame.
func (c *conn) send(a Answer) {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()

	if a.Reply != nil {
		err := c.write(a.Reply)
		runtime.KeepAlive(a.KeepAlive)

		if err != nil {
			// ends the reader
			_ = c.ws.Close()
			return
		}
		// the client has read the reply, so it is alive
		c.received.Store(true)
	}

	if a.Close != 0 {
		c.sendClose(a.Close, "")
	}
}

// chunkBytes is how much of a large reply is written at a time.
const chunkBytes = 64 << 10

// write sends one message. A message of several pieces is sent as several frames, so that the pieces need
// not be copied together. Each frame that the client reads shows that it is alive, so a client may read
// slowly.
func (c *conn) write(pieces [][]byte) error {
	if len(pieces) == 1 {
		return c.ws.WriteMessage(websocket.TextMessage, pieces[0])
	}

	w, err := c.ws.NextWriter(websocket.TextMessage)
	if err != nil {
		return err
	}

	for _, piece := range pieces {
		for part := range slices.Chunk(piece, chunkBytes) {
			if _, err := w.Write(part); err != nil {
				return err
			}

			c.received.Store(true)
		}
	}

	return w.Close()
}
