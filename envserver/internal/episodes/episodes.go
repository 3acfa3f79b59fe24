// Package episodes runs interactive episodes in sessions: a reset opens one, a step calls one of its tools,
// and submit ends it.
package episodes

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/google/uuid"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/jsonvalue"
	"github.com/rolloutd/rolloutd/envserver/internal/session"
	"github.com/rolloutd/rolloutd/envserver/internal/tools"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/taskset"
)

// Tasks picks the tasks of episodes; taskset.Set has them.
type Tasks interface {
	// Pick returns the arguments of a task: that of the id, or if it is empty the one that the seed
	// selects. An unknown id is a fault.Invalid of field "task_id".
	Pick(id string, seed int64) (map[string]any, error)
}

// Options of a Player; all are required but Tasks and Defaults.
type Options struct {
	Rollouts access.Rollouts
	Episodes access.Episodes
	Table    *tools.Table

	// lists the tools of the policy
	Tools func(context.Context) ([]Tool, error)

	// arguments of start_rollout
	Defaults map[string]any

	// nil: the task is in the arguments of the reset
	Tasks  Tasks
	Logger *slog.Logger
}

// Tool is a tool of the policy.
type Tool struct {
	Name, Description string
	InputSchema       *jsonschema.Schema
}

// Player runs episodes. It caches only the list of tools: the state is in the session and on the host. It
// is safe for concurrent use.
type Player struct {
	o     Options
	tools *toolList
}

// New makes a Player.
func New(o Options) *Player { return &Player{o, newToolList(o.Tools, o.Logger)} }

// Tools returns those of the policy, submit last. An unchanged list is the same slice. The error is a
// fault.Unavailable: the tools cannot be listed now.
func (p *Player) Tools(ctx context.Context) ([]Tool, error) { return p.tools.get(ctx) }

// Knows reports whether the policy is known to have a tool of that name.
func (p *Player) Knows(name string) bool { return hasTool(p.tools.current(), name) }

func hasTool(list []Tool, name string) bool {
	return slices.ContainsFunc(list, func(t Tool) bool { return t.Name == name })
}

// anotherBegan is the reason of an episode's end by the start of another.
const anotherBegan = "a reset began another episode"

// Reset begins the session's episode of that id, "" for a new one, and closes the open one unless another
// client has joined it. args are those of start_rollout, seed and task_id. Concurrent resets and
// attachments run in turn. It returns the episode with its id.
func (p *Player) Reset(
	ctx context.Context,
	sess *session.Session,
	episodeID string,
	args map[string]any,
) (string, *session.Playing, error) {
	left := sess.Playing()
	if sess.Holds(ctx) {
		// also ends a call that waits for its episode to begin
		p.Leave(ctx, left, anotherBegan)
	}

	done, err := sess.Opening(ctx)
	if err != nil {
		return "", nil, err
	}
	defer done()
	// meanwhile
	if opened := sess.Playing(); opened != left {
		p.Leave(ctx, opened, anotherBegan)
	}

	sess.Reset(episodeID)
	playing, err := p.open(ctx, sess, args)

	return sess.State().EpisodeID, playing, err
}

// open opens an episode. The caller has the token of sess.Opening.
func (p *Player) open(ctx context.Context, sess *session.Session, args map[string]any) (*session.Playing, error) {
	if _, err := p.Tools(ctx); err != nil {
		return nil, err
	}

	merged, err := p.arguments(args)
	if err != nil {
		return nil, err
	}

	state, instruction, err := p.o.Table.StartEpisode(ctx, tools.Session(sess), merged)
	if err != nil {
		return nil, err
	}

	playing := session.Playing{RolloutID: state.ID, TaskID: state.TaskID, Instruction: instruction}
	if err := sess.Play(ctx, playing); err != nil {
		return nil, err
	}
	// the client closed the session while the rollout was started
	if sess.Left() {
		p.Leave(context.WithoutCancel(ctx), &playing, "the client closed its session")
	}

	return p.join(ctx, sess, playing)
}

// arguments merges the environment's arguments, the task's and the client's; later ones take precedence.
func (p *Player) arguments(args map[string]any) (map[string]any, error) {
	merged, err := decodedArguments(p.o.Defaults)
	if err != nil {
		return nil, err
	}

	if own, _ := args["instruction"].(string); own == "" && p.o.Tasks != nil {
		id, _ := args["task_id"].(string)

		task, err := p.o.Tasks.Pick(id, seedOf(args["seed"]))
		if err == nil {
			task, err = decodedArguments(task)
		}

		if err != nil {
			return nil, err
		}

		taskset.Change(merged, task)
	}

	changes := maps.Clone(args)
	if v, ok := args["episode"]; ok {
		changes["episode"] = episodeOver(merged["episode"], v)
	}

	taskset.Change(merged, changes)

	return merged, nil
}

// decodedArguments converts arguments of Go values to the form in which a client's arguments are decoded.
func decodedArguments(args map[string]any) (map[string]any, error) {
	raw, err := json.Marshal(args)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "arguments of the environment")
	}

	v, err := jsonvalue.Decode(raw)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "arguments of the environment")
	}

	sent, _ := v.(map[string]any)
	if sent == nil {
		sent = map[string]any{}
	}

	return sent, nil
}

// episodeOver returns the environment's configuration of the episode with the client's changes: it may
// change the bounds, but not the tools.
func episodeOver(own, given any) any {
	all := map[string]any{}
	if own, ok := own.(map[string]any); ok {
		maps.Copy(all, own)
	}

	if given, ok := given.(map[string]any); ok {
		for _, name := range []string{"max_steps", "idle_s"} {
			if v := given[name]; v != nil {
				all[name] = v
			}
		}
	}

	return all
}

// seedOf reads a seed. Numbers of JSON are decoded as json.Number, float64 or int64.
func seedOf(v any) int64 {
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case float64:
		return int64(n)
	case json.Number:
		i, _ := n.Int64()
		return i
	default:
		return 0
	}
}

// Rejoin makes the session the client of an episode from a lost connection.
func (p *Player) Rejoin(ctx context.Context, sess *session.Session) (*session.Playing, error) {
	done, err := sess.Opening(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

	playing := sess.Playing()
	if playing == nil || playing.Done {
		return playing, nil
	}

	joined, err := p.join(ctx, sess, *playing)
	// it ended meanwhile; the next step returns the outcome
	if fault.Is(err, fault.Conflict) {
		return playing, nil
	}

	return joined, err
}

// join waits until the episode accepts calls, and makes the session the one whose calls are accepted.
func (p *Player) join(ctx context.Context, sess *session.Session, playing session.Playing) (*session.Playing, error) {
	if _, err := p.o.Episodes.Ready(ctx, playing.RolloutID); err != nil {
		return nil, p.explain(ctx, playing.RolloutID, err)
	}

	status, err := p.o.Episodes.Join(ctx, playing.RolloutID, sess.ID)
	if err != nil {
		return nil, p.explain(ctx, playing.RolloutID, err)
	}

	playing.SandboxID, playing.ToolsUsed = status.SandboxID, status.ToolsUsed

	return &playing, sess.Play(ctx, playing)
}

// explain returns how a rollout that accepts no calls has ended.
func (p *Player) explain(ctx context.Context, id string, err error) error {
	if !fault.Is(err, fault.Conflict) {
		return err
	}

	res, waited := p.o.Rollouts.Wait(ctx, id)
	if waited != nil || res.Outcome.MayCarryReward() || res.Error == nil {
		return err
	}

	return fault.New(fault.SetupFailed, "the episode did not begin: %s: %s", res.Outcome, *res.Error)
}

// Leave ends the episode of a client that left for good; nil: none is open.
func (p *Player) Leave(ctx context.Context, playing *session.Playing, why string) {
	if playing == nil || playing.Done {
		return
	}

	if _, err := p.o.Rollouts.Abort(ctx, playing.RolloutID, why); err != nil {
		p.o.Logger.Warn("episode not ended", "rollout", playing.RolloutID, "error", err)
	}
}

// Step is one call of a tool by a session's client.
type Step struct {
	// id of the call; "": a new one
	ID   string
	Tool string
	Args map[string]any
}

// Outcome is the result of a step.
type Outcome struct {
	// nil: the call failed
	Result *episode.Result

	// why; nil where Result is not
	Err    error
	Done   bool
	Reward *float64
}

// Step makes a call in the session's episode, which it opens if there is none.
func (p *Player) Step(ctx context.Context, sess *session.Session, step Step) Outcome {
	playing, err := p.opened(ctx, sess)
	if err != nil {
		return Outcome{Err: err}
	}

	if playing.Done {
		return over(playing)
	}
	// An episode goes on while the tools cannot be listed: its host knows them.
	if list, err := p.Tools(ctx); err == nil && !hasTool(list, step.Tool) {
		return Outcome{Err: &tools.UnknownError{Name: step.Tool}}
	}

	raw, err := json.Marshal(step.Args)
	if err != nil {
		return Outcome{Err: fault.Wrap(fault.Invalid, err, "arguments of %s", step.Tool)}
	}

	if step.Args == nil {
		raw = nil
	}

	call := episode.Call{ID: step.ID, Tool: step.Tool, Arguments: raw, Client: sess.ID}
	if step.Tool == rollout.SubmitTool {
		return p.submit(ctx, sess, *playing, call)
	}

	if call.ID == "" {
		call.ID = uuid.NewString()
	}

	return p.call(ctx, sess, *playing, call)
}

// opened returns the session's episode, and opens one if there is none.
func (p *Player) opened(ctx context.Context, sess *session.Session) (*session.Playing, error) {
	if playing := sess.Playing(); playing != nil {
		return playing, nil
	}

	done, err := sess.Opening(ctx)
	if err != nil {
		return nil, err
	}
	defer done()

	if playing := sess.Playing(); playing != nil {
		return playing, nil
	}

	return p.open(ctx, sess, nil)
}

func over(playing *session.Playing) Outcome {
	return Outcome{
		Err: fault.New(fault.Conflict, "the episode has ended (%s): a reset, or a new session, begins another",
			playing.Outcome),
		Done:   true,
		Reward: playing.Reward,
	}
}

func (p *Player) submit(
	ctx context.Context,
	sess *session.Session,
	playing session.Playing,
	call episode.Call,
) Outcome {
	err := p.o.Episodes.Submit(ctx, playing.RolloutID, call)
	if err != nil && !p.isEpisodeOver(ctx, playing, err) {
		return Outcome{Err: err}
	}

	done, how := p.finish(ctx, sess, playing)
	if done.Err == nil {
		done.Result = &episode.Result{Content: "The episode has ended" + otherEnd(how) + "."}
	}

	return done
}

// otherEnd returns, in parentheses, how an episode ended that did not end with its submission.
func otherEnd(how string) string {
	if how == string(rollout.Completed) {
		return ""
	}

	return " (" + how + ")"
}

func (p *Player) call(ctx context.Context, sess *session.Session, playing session.Playing, call episode.Call) Outcome {
	answer, err := p.o.Episodes.Call(ctx, playing.RolloutID, call)
	if err != nil {
		if !p.isEpisodeOver(ctx, playing, err) {
			return Outcome{Err: err}
		}

		done, _ := p.finish(ctx, sess, playing)
		if done.Err == nil {
			done.Err = err
		}

		return done
	}

	sess.CountSteps(playing.RolloutID, answer.Steps)

	out := Outcome{Result: &answer.Result}
	if answer.Ended != "" {
		done, _ := p.finish(ctx, sess, playing)
		out.Done, out.Reward, out.Err = done.Done, done.Reward, done.Err

		return out
	}

	if !slices.Contains(playing.ToolsUsed, call.Tool) {
		p.progress(ctx, sess, playing.RolloutID, func(now *session.Playing) {
			// concurrent calls
			if !slices.Contains(now.ToolsUsed, call.Tool) {
				now.ToolsUsed = append(slices.Clone(now.ToolsUsed), call.Tool)
			}
		})
	}

	return out
}

func (p *Player) progress(ctx context.Context, sess *session.Session, rolloutID string, change func(*session.Playing)) {
	if err := sess.Progress(ctx, rolloutID, change); err != nil {
		p.o.Logger.Warn("session not kept", "session", sess.ID, "error", err)
	}
}

// isEpisodeOver reports whether a call was refused because the episode is over, rather than because of its caller or
// form.
func (p *Player) isEpisodeOver(ctx context.Context, playing session.Playing, err error) bool {
	if !fault.Is(err, fault.Conflict) {
		return false
	}

	status, err := p.o.Episodes.Ready(ctx, playing.RolloutID)

	return err == nil && status.Ended != "" || fault.Is(err, fault.Conflict)
}

// finish waits for the grade, and returns how the episode ended.
func (p *Player) finish(
	ctx context.Context,
	sess *session.Session,
	playing session.Playing,
) (done Outcome, how string) {
	res, err := p.o.Rollouts.Wait(ctx, playing.RolloutID)
	if err != nil {
		return Outcome{Err: err}, ""
	}

	how = string(res.Outcome)
	if res.Error != nil {
		how += ": " + *res.Error
	}

	sess.Finished(res)
	p.progress(ctx, sess, playing.RolloutID, func(now *session.Playing) {
		now.Done, now.Reward, now.Outcome = true, res.Reward, how
	})

	return Outcome{Done: true, Reward: res.Reward}, how
}
