package toolserver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/input/jsoninput"
	"github.com/rolloutd/rolloutd/internal/tool"
)

// requestLimits bound the body of POST /execute.
func requestLimits() jsoninput.Limits {
	return jsoninput.Limits{Bytes: 16 << 20, Elements: 100_000, Depth: 64}
}

type executeRequest struct {
	TrajectoryID string   `json:"trajectory_id"`
	Tool         toolCall `json:"tool"`
	TimeoutS     float64  `json:"timeout_s"`
}

type toolCall struct {
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	UniqID    string          `json:"uniq_id"`
}

type executeAnswer struct {
	Success  bool            `json:"success"`
	Output   string          `json:"output"`
	Error    string          `json:"error"`
	Metadata json.RawMessage `json:"metadata"`
	UniqID   string          `json:"uniq_id"`
}

func (s *Server) execute(w http.ResponseWriter, r *http.Request) {
	if s.refuse(w, r) {
		return
	}

	in, err := decode(r)
	if err != nil {
		answer(w, http.StatusUnprocessableEntity, map[string]any{"detail": []map[string]string{{
			"msg":  err.Error(),
			"type": "value_error",
		}}})

		return
	}

	result, err := s.once(r.Context(), in)
	if err != nil && r.Context().Err() != nil {
		return
	}
	// not the tool's fault: the caller may retry under the same id
	if err != nil {
		result = tool.Failed("Tool execution error: " + err.Error())
		result.Data = json.RawMessage(`{"` + faultKey + `":"` + string(fault.KindOf(err)) + `"}`)
	}

	out := executeAnswer{
		Success:  !result.Error,
		Output:   result.Content,
		Error:    result.Message,
		Metadata: result.Data,
		UniqID:   in.Tool.UniqID,
	}
	if len(out.Metadata) == 0 {
		out.Metadata = json.RawMessage("{}")
	}

	answer(w, http.StatusOK, out)
}

// faultKey is the metadata member with the kind of an infrastructure failure.
const faultKey = "fault"

func decode(r *http.Request) (in executeRequest, err error) {
	err = json.NewDecoder(jsoninput.NewReader(r.Body, requestLimits())).Decode(&in)
	switch {
	case err != nil:
		return in, fmt.Errorf("body: %w", err)
	case in.Tool.Name == "" || in.Tool.UniqID == "":
		return in, errors.New("tool: must have name and uniq_id")
	case len(in.Tool.Arguments) > 0 && in.Tool.Arguments[0] != '{':
		return in, errors.New("tool.arguments: must be an object")
	case !(in.TimeoutS >= 0 && in.TimeoutS <= maxTimeout.Seconds()):
		return in, fmt.Errorf("timeout_s: must be 0 to %g, got %g", maxTimeout.Seconds(), in.TimeoutS)
	}

	return in, nil
}

// once runs the call, or returns the result of an earlier call under the same ids. Calls without a
// trajectory_id always run: clients number them alike.
func (s *Server) once(ctx context.Context, in executeRequest) (tool.Result, error) {
	if in.TrajectoryID == "" {
		return s.run(ctx, in)
	}

	sum := sha256.Sum256([]byte(in.TrajectoryID + "\x00" + in.Tool.UniqID))

	id := hex.EncodeToString(sum[:])
	for {
		result, running, err := s.results.Run(
			ctx,
			id,
			in.Tool,
			maxTimeout+time.Minute,
			func(ctx context.Context) (tool.Result, error) {
				defer s.order.add(id)
				return s.run(ctx, in)
			},
		)
		switch {
		case fault.Is(err, fault.Exhausted) && s.forget(ctx):
			continue
		case fault.Is(err, fault.Conflict):
			return tool.Failed("uniq_id was used before with another tool or other arguments"), nil
		case running:
			return tool.Result{}, fault.New(fault.Unavailable, "the call has not ended yet")
		}

		return result, err
	}
}

// run waits for a slot and calls the tool.
func (s *Server) run(ctx context.Context, in executeRequest) (tool.Result, error) {
	if err := s.slots.Acquire(ctx, 1); err != nil {
		return tool.Result{}, fault.Wrap(fault.Unavailable, err, "wait for a slot")
	}
	defer s.slots.Release(1)

	for _, t := range s.tools(ctx) {
		if t.Name == in.Tool.Name {
			return s.call(ctx, t, in)
		}
	}

	return tool.Failed("Unknown tool: " + in.Tool.Name), nil
}

func (s *Server) call(ctx context.Context, t offered, in executeRequest) (tool.Result, error) {
	limit := DefaultTimeout
	if in.TimeoutS > 0 {
		limit = time.Duration(in.TimeoutS * float64(time.Second))
	}

	within, cancel := context.WithTimeout(ctx, limit)
	defer cancel()

	result, err := t.source.Call(within, tool.Env{CallScope: in.TrajectoryID}, tool.Call{
		ID:        in.Tool.UniqID,
		Name:      in.Tool.Name,
		Arguments: in.Tool.Arguments,
	})
	if err != nil && within.Err() != nil && ctx.Err() == nil {
		return tool.Failed("the tool did not answer within " + limit.String()), nil
	}

	return result, err
}

// order holds the ids of finished calls, oldest first.
type order struct {
	mu  sync.Mutex
	ids []string
}

func (o *order) add(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()

	o.ids = append(o.ids, id)
}

// removeOldest removes the oldest tenth.
func (o *order) removeOldest() []string {
	o.mu.Lock()
	defer o.mu.Unlock()

	n := (len(o.ids) + 9) / 10
	oldest := o.ids[:n:n]
	o.ids = o.ids[n:]

	return oldest
}

// forget drops the oldest results; false: there are none.
func (s *Server) forget(ctx context.Context) bool {
	ids := s.order.removeOldest()
	for _, id := range ids {
		if err := s.results.Delete(ctx, id); err != nil {
			return false
		}
	}

	return len(ids) > 0
}
