package env

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rolloutd/rolloutd/envserver/internal/episodes"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// errLimit is the cause of a step that was not answered in time.
var errLimit = errors.New("the step's timeout ran out; the call goes on, and the same request_id returns its result")

// errNoSession refuses an episode to a request whose session ends with it.
func errNoSession() error {
	return fault.Field("session_id",
		"an episode needs a session: name one in the header X-Session-Id, use a WebSocket or, over MCP, initialize first")
}

// EpisodeState is what a client sees of a session with an interactive episode.
type EpisodeState struct {
	EpisodeID string   `json:"episode_id" nullable:"true" description:"id of the episode since the last reset"`
	StepCount int      `json:"step_count" minimum:"0" default:"0" description:"calls of tools that have run since the last reset, each once"`
	Running   int      `json:"steps_running" minimum:"0" default:"0" description:"calls that still run, and are counted when they end"`
	RolloutID *string  `json:"rollout_id" description:"the rollout that the episode is"`
	TaskID    *string  `json:"task_id" description:"its task"`
	SandboxID *string  `json:"sandbox_id" description:"its sandbox"`
	ToolsUsed []string `json:"tools_used" nullable:"false" description:"tools that were called, in the order of their first call"`
	Done      bool     `json:"done" description:"true if the episode has ended"`
	Reward    *float64 `json:"reward" description:"reward of the episode, once it has ended"`
	Outcome   *string  `json:"outcome" description:"how the episode ended"`

	_ struct{} `title:"State" additionalProperties:"true"`
}

// State is what a client sees of a session. The error is a fault.Unavailable while the steps of its episode
// are not known.
func (e *Env) State(ctx context.Context, sess *session.Session) (any, error) {
	if e.Play == nil {
		return sess.State(), nil
	}

	running, err := e.Play.Count(ctx, sess)
	if err != nil {
		return nil, err
	}

	s := sess.State()

	out := EpisodeState{EpisodeID: s.EpisodeID, StepCount: s.StepCount, Running: running, ToolsUsed: []string{}}
	if p := sess.Playing(); p != nil {
		out.RolloutID, out.TaskID, out.SandboxID = &p.RolloutID, orNil(p.TaskID), orNil(p.SandboxID)
		out.ToolsUsed = append(out.ToolsUsed, p.ToolsUsed...)
		out.Done, out.Reward, out.Outcome = p.Done, p.Reward, orNil(p.Outcome)
	}

	return out, nil
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}

	return &s
}

// resetEpisode begins an interactive episode, or goes on with one.
func (e *Env) resetEpisode(ctx context.Context, sess *session.Session, r ResetArgs) (reply.ResetResponse, error) {
	if sess.Transient {
		return reply.ResetResponse{}, errNoSession()
	}

	ctx, unbind := sess.Bind(ctx)
	defer unbind()

	var (
		playing *session.Playing
		err     error
	)

	id := r.EpisodeID
	if r.Attach {
		playing, err = e.Play.Rejoin(ctx, sess)
	} else {
		id, playing, err = e.Play.Reset(ctx, sess, id, r.Args)
	}

	if err != nil || playing == nil {
		return reply.ResetResponse{}, err
	}

	out := reply.ResetResponse{}
	out.Observation.Start = &reply.EpisodeStart{
		EpisodeID: id, RolloutID: playing.RolloutID, TaskID: playing.TaskID, Instruction: playing.Instruction,
	}
	out.Done, out.Reward = playing.Done, playing.Reward

	return out, nil
}

// PlayStep makes a call in the session's interactive episode, with its span and its metrics. limit 0 is no bound.
func (e *Env) PlayStep(
	ctx context.Context,
	sess *session.Session,
	step episodes.Step,
	limit time.Duration,
) episodes.Outcome {
	if sess.Transient {
		return episodes.Outcome{Err: errNoSession()}
	}

	name := unknownTool
	if e.Play.Knows(step.Tool) {
		name = step.Tool
	}

	ctx, span := e.Tracer.Start(ctx, "tool "+name, trace.WithAttributes(attribute.String("rolloutd.tool", name)))
	defer span.End()

	if limit > 0 {
		var cancel context.CancelFunc

		ctx, cancel = context.WithTimeoutCause(ctx, limit, errLimit)
		defer cancel()
	}

	started := time.Now()
	out := e.Play.Step(ctx, sess, step)
	e.metrics.called(name, outcome(out.Err), time.Since(started))

	if out.Err != nil {
		span.SetStatus(codes.Error, outcome(out.Err))
	}

	return out
}

// playStep is Step of an interactive episode.
func (e *Env) playStep(ctx context.Context, sess *session.Session, a Action, limit time.Duration) reply.StepResponse {
	out := e.PlayStep(ctx, sess, episodes.Step{
		ID:   a.RequestID,
		Tool: a.ToolName,
		Args: a.Arguments,
	}, cmp.Or(a.Limit, limit))

	o := reply.PlayObservation{ToolName: a.ToolName}
	if out.Result != nil && out.Err == nil {
		o.Result = reply.ToolResultOf(*out.Result)
	} else {
		o.Error = reply.ToolErrorOf(out.Err)
	}

	r := reply.StepResponse{Observation: o}
	r.Done, r.Reward = out.Done, out.Reward

	return r
}

// RequestID returns the call id for a client's request_id, so that the client can repeat the call. A long
// request_id is hashed.
func RequestID(named string) string {
	if id := "request-" + named; len(id) <= episode.MaxCallID {
		return id
	}

	sum := sha256.Sum256([]byte(named))

	return "request-sha256-" + hex.EncodeToString(sum[:])
}

// requestIDOf returns the RequestID of the request_id in a call's metadata; "": none.
func requestIDOf(metadata map[string]any) string {
	if id, _ := metadata["request_id"].(string); id != "" {
		return RequestID(id)
	}

	return ""
}
