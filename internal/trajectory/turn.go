package trajectory

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/images"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/render"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// TurnOf returns the public form of a record. Lists are never null. It reads the tokens' strings from the
// raw reply: they are needed at delivery, not during the call.
func TurnOf(r *trace.Record, delivered bool) rollout.Turn {
	t := rollout.Turn{
		Turn: r.Turn, CallID: r.CallID, API: cmp.Or(r.API, string(reply.Chat)), Kind: r.Kind, Lineage: r.Lineage,
		Delivered: delivered, Broken: r.Broken, Flaws: r.Flaws, FinishReason: r.FinishReason,
		PromptTokenIDs:     list(r.PromptTokenIDs),
		CompletionTokens:   []string{},
		CompletionTokenIDs: list(r.TokenIDs),
		PerTokenLogps:      list(r.Logprobs),
		Usage:              r.Usage,
		QueuedS:            r.Queued.Seconds(),
		LatencyS:           r.Latency.Seconds(),
		FirstByteS:         r.FirstByte.Seconds(),
		Timestamp:          unixSeconds(r.Began),
		UpstreamStatus:     r.Status,
		UpstreamError:      r.UpstreamError,
		UpstreamTries:      r.Tries,
		ModelVersion:       r.ModelVersion,
		WeightVersions:     r.Versions,
		Engine:             r.Engine,
		Request:            readable(r.Request),
		Rewritten:          r.Rewritten,
		Constrained:        r.Constrained,
		ParamFixes:         r.Fixes,
		Repaired:           r.Repaired,
		Fallback:           r.Fallback,
		Masked:             r.Masked,
		RoutedExperts:      r.Experts,
		SamplingMask:       r.SamplingMask,
		NodeID:             nodeID(r.CallID),
		Images:             images.Count(reply.API(cmp.Or(r.API, string(reply.Chat))), r.Request),
	}

	t.SamplingParams, t.RequestedSamplingParams = samplingOf(&t)
	if len(r.Reply) > 0 {
		respond(&t, reply.API(r.API), r.Reply)
	}

	t.Train = sequence.Trains(&t) && !r.Eval
	if len(t.PromptTokenIDs) > 0 {
		t.LossMask = rollout.NewMask(len(t.PromptTokenIDs), len(t.CompletionTokenIDs), t.Train)
	}

	return t
}

// nodeID returns a turn's unique name.
func nodeID(callID string) string {
	sum := sha256.Sum256([]byte(callID))
	return hex.EncodeToString(sum[:6])
}

// respond adds the reply without the ids, which the turn already has. A reply that cannot be assembled is a
// flaw of the turn, not of the whole trace.
func respond(t *rollout.Turn, api reply.API, raw []byte) {
	if api != reply.Messages {
		raw = render.View{API: api, Logprobs: true, Top: -1, Usage: true}.Of(raw)
	}

	whole, err := render.Assemble(api, raw)
	switch {
	case err != nil:
	case !json.Valid(whole.JSON()):
		err = errors.New("a string in it is not JSON")
	case !rawjson.Nestable(whole.JSON()):
		err = errors.New("it is nested too deep")
	}

	if err != nil {
		t.Flaws = append(t.Flaws, fmt.Sprintf("reply unreadable: %v", err))
		return
	}

	t.CompletionTokens, t.Response = list(whole.Tokens()), whole.JSON()
}

func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}

	return s
}

func unixSeconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// readable returns a body as valid JSON: one that readers would not accept becomes a string.
func readable(body []byte) json.RawMessage {
	body = rawjson.Finite(body)
	if json.Valid(body) && rawjson.Nestable(body) {
		return body
	}
	// a string always encodes
	text, _ := marshal(string(body))

	return text
}

// marshal does not escape "<", ">" and "&": readers see the text that models see.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer

	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)

	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode turn: %w", err)
	}

	return bytes.TrimRight(out.Bytes(), "\n"), nil
}
