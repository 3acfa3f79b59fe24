package scripted

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/rolloutd/rolloutd/internal/clock"
)

// bytes
const maxRequest = 64 << 20

// call is one request being answered.
type call struct {
	req    request
	scene  plannedReply
	fault  Fault
	prompt []int32

	// id of the reply; the same for the same request
	id      string
	created time.Time

	// see opening
	open []byte
	sent *Sent
	log  *sentLog
}

// serve handles the requests of one API: read decodes them and answer sends the reply.
func (s *Server) serve(
	read func(body []byte) (request, error),
	answer func(*call, http.ResponseWriter, *http.Request),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c, status, err := s.newCall(r, read)
		if err != nil {
			writeError(w, status, err.Error())
			return
		}
		defer c.finish()

		if clock.Sleep(r.Context(), c.scene.pace.Delay+c.fault.Delay) != nil {
			return
		}

		if !c.fault.refuse(w, r) {
			answer(c, w, r)
			return
		}

		c.sent.Status = c.fault.Status
		if c.fault.NotSSE || c.fault.Garbage {
			c.sent.Status = http.StatusOK
		}
	}
}

func (c *call) chat(w http.ResponseWriter, r *http.Request) {
	if c.req.Stream {
		c.stream(w, r)
	} else {
		c.answerAtOnce(w, r)
	}
}

func (s *Server) newCall(r *http.Request, read func([]byte) (request, error)) (*call, int, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("read request: %w", err)
	}

	if len(body) > maxRequest {
		return nil, http.StatusRequestEntityTooLarge, fmt.Errorf("request is over %d bytes", maxRequest)
	}

	c := &call{created: time.Now(), log: s.log}
	if c.req, err = read(body); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("request: %w", err)
	}

	if s.rawLogprobs {
		c.req.Temperature = nil
	}

	if c.req.named = s.namedIDs; c.req.named {
		c.req.ReturnTokenIDs = false
	}

	if len(c.req.Messages) == 0 {
		return nil, http.StatusBadRequest, fmt.Errorf("request: no messages")
	}

	var ok bool
	if c.scene, ok = s.choose(&c.req); !ok {
		return nil, http.StatusBadRequest, fmt.Errorf(
			"no script matches the instruction; add one without match to play for any",
		)
	}

	if text, _ := c.req.instruction(); strings.HasPrefix(text, probeText) {
		// not a call of an agent
		c.log = &sentLog{}
	}

	session := r.Header.Get("X-Session-Id")
	c.fault = s.fault(c.scene, session)
	c.prompt = c.req.promptIDs()
	c.id = replyID(c.prompt)
	c.open = c.opening()
	c.sent = &Sent{
		Session: session, CallID: r.Header.Get("X-Rolloutd-Call"), Script: c.scene.script, Turn: c.scene.turn,
		PromptTokenIDs: c.prompt, Request: body,
	}

	return c, 0, nil
}

// replyID derives the id of a reply from its prompt.
func replyID(prompt []int32) string {
	h := uint64(14695981039346656037)
	for _, id := range prompt {
		h = (h ^ uint64(id)) * 1099511628211
	}

	return fmt.Sprintf("%016x", h)
}

// finish logs a call that was not completed; a completed one is logged already.
func (c *call) finish() {
	if !c.sent.Complete {
		c.log.write(c.sent)
	}
}

// complete logs the call as complete. It is called just before the last bytes are sent, so that a client
// that has read the whole reply finds the line.
func (c *call) complete(finish string) {
	c.sent.FinishReason, c.sent.Complete = finish, true
	c.log.write(c.sent)
}
