package wsio

import "sync"

// Bounds of what a client may send ahead while an answer is under way. Beyond them nothing more is read.
const (
	queued      = 64
	queuedBytes = 32 << 20
)

// backlog is the frames that wait for the worker. While there is no worker it is shut and takes none.
type backlog struct {
	mu     sync.Mutex
	room   *sync.Cond // made with the first worker: most connections are at rest
	isOpen bool
	isFull bool // the reader waits for room
	isLeft bool // see leave
	frames []frame
	bytes  int
}

func (b *backlog) open() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isOpen = true
	if b.room == nil {
		b.room = sync.NewCond(&b.mu)
	}
}

// shut has the next frame go past the worker, which has an answer under way that was overtaken. Nothing is queued then.
func (b *backlog) shut() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.isOpen = false
}

// put queues a frame, as soon as there is room. False: there is no worker, and nothing is before this frame. A frame of a client that
// has left is dropped.
func (b *backlog) put(f frame, t *turns) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	for b.isOpen && !b.isLeft && b.full(len(f.data)) {
		b.isFull = true
		b.room.Wait()
	}
	b.isFull = false
	if b.isLeft {
		f.drop()
		return true
	}
	if !b.isOpen {
		return false
	}
	f.turn = t.arrive()
	b.frames = append(b.frames, f)
	b.bytes += len(f.data)
	return true
}

// blocked says that the reader waits for room, and so reads neither a pong nor the client's end.
func (b *backlog) blocked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.isFull
}

// leave ends the reader's wait for room, for good: the client is gone.
func (b *backlog) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isLeft = true; b.room != nil {
		b.room.Signal()
	}
}

func (b *backlog) full(more int) bool {
	return len(b.frames) >= queued || len(b.frames) > 0 && b.bytes+more > queuedBytes
}

// next takes the frame that has waited longest. With none it shuts the backlog, and its caller is the worker no more.
func (b *backlog) next() (f frame, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room.Signal() // there is one who waits: the reader
	if len(b.frames) == 0 {
		b.isOpen, b.frames = false, nil
		return frame{}, false
	}
	f, b.frames = b.frames[0], b.frames[1:]
	b.bytes -= len(f.data)
	return f, true
}
