package wsio

import "sync"

// Bounds of the frames that a client may send ahead while an answer is under way. The reader stops reading at them.
const (
	maxQueued      = 64
	maxQueuedBytes = 32 << 20
)

// backlog is the queue of frames for the worker. Without a worker it takes no frames.
type backlog struct {
	mu sync.Mutex

	// made with the first worker, since most connections are idle
	room      *sync.Cond
	hasWorker bool

	// the reader waits for room
	readerWaits bool

	// see markGone
	disconnected bool
	frames       []frame
	bytes        int
}

func (b *backlog) attachWorker() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.hasWorker = true
	if b.room == nil {
		b.room = sync.NewCond(&b.mu)
	}
}

// detachWorker makes the reader answer the next frame itself, because the client no longer waits for the
// worker's answer. The queue is empty at that time.
func (b *backlog) detachWorker() {
	b.mu.Lock()
	defer b.mu.Unlock()

	b.hasWorker = false
}

// queueFrame queues a frame for the worker. It waits for room. It returns false if there is no worker; the caller
// then answers the frame. It drops the frame of a client that has disconnected.
func (b *backlog) queueFrame(f frame, r *requests) bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	for b.hasWorker && !b.disconnected && b.full(len(f.data)) {
		b.readerWaits = true
		b.room.Wait()
	}

	b.readerWaits = false
	if b.disconnected {
		f.freeMemory()
		return true
	}

	if !b.hasWorker {
		return false
	}

	f.request = r.track()
	b.frames = append(b.frames, f)
	b.bytes += len(f.data)

	return true
}

// readerBlocked reports whether the reader waits for room. It then reads neither pongs nor the end of the connection.
func (b *backlog) readerBlocked() bool {
	b.mu.Lock()
	defer b.mu.Unlock()

	return b.readerWaits
}

// markGone records that the client has disconnected. The reader no longer waits for room.
func (b *backlog) markGone() {
	b.mu.Lock()
	defer b.mu.Unlock()

	if b.disconnected = true; b.room != nil {
		b.room.Signal()
	}
}

func (b *backlog) full(more int) bool {
	return len(b.frames) >= maxQueued || len(b.frames) > 0 && b.bytes+more > maxQueuedBytes
}

// nextFrame removes the oldest frame. If there is none it detaches the worker, which is the caller.
func (b *backlog) nextFrame() (f frame, more bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// only the reader waits
	b.room.Signal()

	if len(b.frames) == 0 {
		b.hasWorker, b.frames = false, nil
		return frame{}, false
	}

	f, b.frames = b.frames[0], b.frames[1:]
	b.bytes -= len(f.data)

	return f, true
}
