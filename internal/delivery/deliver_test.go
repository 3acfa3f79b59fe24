package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

// recorder is a sink that returns err and keeps the groups that it accepted.
type recorder struct {
	err error

	// the trainer's step; 0: there is no trainer
	step  int
	taken []delivery.Group
}

func (r *recorder) Status(context.Context) (delivery.Status, error) {
	s := delivery.Status{Ready: true, Room: delivery.Unbounded, Step: r.step}
	if r.step > 0 {
		s.BatchSize = 1
	}

	return s, nil
}

func (r *recorder) Deliver(_ context.Context, g delivery.Group) error {
	if r.err == nil {
		r.taken = append(r.taken, g)
	}

	return r.err
}

type rig struct {
	*delivery.Deliverer
	sink *recorder
}

func newRig(t *testing.T, change ...func(*delivery.Named)) *rig {
	t.Helper()
	st, err := store.Open(t.Context(), t.TempDir())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, st.Close()) })

	sink := &recorder{}

	named := delivery.Named{Sink: sink}
	for _, c := range change {
		c(&named)
	}

	return &rig{&delivery.Deliverer{
		Store: st,
		Sinks: map[string]delivery.Named{"s": named},
		Log:   slog.New(slog.DiscardHandler),
	}, sink}
}

// The traces have one trained reply; two conversations, the second with more tokens to train on; and no
// tokens to train on.
const (
	good  = `{"turn":1,"kind":"agent","lineage":"a","train":true,"delivered":true,"prompt_token_ids":[1,2],"completion_token_ids":[3],"per_token_logps":[-1]}` + "\n"
	split = good + `{"turn":2,"kind":"agent","lineage":"a","train":true,"delivered":true,"prompt_token_ids":[9],"completion_token_ids":[4,5],"per_token_logps":[-1,-1]}` + "\n"
	empty = `{"turn":1,"kind":"agent","lineage":"a","delivered":true,"prompt_token_ids":[1,2],"completion_token_ids":[3],"per_token_logps":[-1]}` + "\n"
)

// finish stores a group with one rollout for each trace; "" stands for a rollout that failed because of the
// infrastructure.
func (r *rig) finish(t *testing.T, id string, at int, traces ...string) {
	t.Helper()

	ended := time.Unix(int64(at), 0).UTC()

	g := rollout.GroupState{
		ID:         id,
		TaskID:     "task",
		Owner:      "alice",
		Size:       len(traces),
		Outcome:    rollout.GroupComplete,
		StartedAt:  ended,
		FinishedAt: &ended,
	}
	for i, trace := range traces {
		m := rollout.Member{Index: i, RolloutID: rollout.MemberID(id, i, 0), Outcome: rollout.InfraFailed}
		if trace != "" {
			reward := float64(i)
			m.Outcome, m.Reward = rollout.Completed, &reward
			key := store.AttemptKey(m.RolloutID, 1, store.Trace)
			_, err := r.Store.PutBytes(t.Context(), key, []byte(trace))
			require.NoError(t, err)

			head := rollout.NewResult(m.RolloutID)
			head.Links["trace"] = key
			require.NoError(t, r.Store.PutJSON(t.Context(), store.HeadKey(m.RolloutID), head))
		}

		g.Members = append(g.Members, m)
	}

	require.NoError(t, r.Store.PutJSON(t.Context(), store.GroupKey(id), g))
}

func (r *rig) list(t *testing.T, f rollout.DeliveryFilter) (out []string, next string) {
	t.Helper()

	if f.Limit == 0 {
		f.Limit = 100
	}

	page, err := delivery.Outbox{Store: r.Store}.List(t.Context(), f)
	require.NoError(t, err)

	for _, d := range page.Deliveries {
		out = append(out, d.GroupID+" "+string(d.State))
	}

	return out, page.Next
}

func TestDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.finish(t, "g", 5, good, split)

	spec := rollout.DeliverySpec{GroupID: "g", Sink: "s"}

	// an operator can correct the token
	r.sink.err = fault.New(fault.Unauthorized, "no such token")
	_, err := r.Deliver(t.Context(), spec)
	require.True(t, fault.Is(err, fault.Unavailable), "to be repeated")
	page, err := delivery.Outbox{Store: r.Store}.List(t.Context(), rollout.DeliveryFilter{Limit: 1})
	require.NoError(t, err)
	require.Equal(t, rollout.DeliveryPending, page.Deliveries[0].State)
	require.Equal(t, "no such token", page.Deliveries[0].Reason)
	require.Equal(t, 1, page.Deliveries[0].Tries)

	r.sink.err = nil
	for range 2 {
		d, err := r.Deliver(t.Context(), spec)
		require.NoError(t, err)
		require.Equal(t, rollout.DeliveryDelivered, d.State)
		require.Equal(t, 2, d.Rollouts)
		require.NotNil(t, d.EndedAt)
	}

	require.Len(t, r.sink.taken, 1)
	g := r.sink.taken[0]
	require.Equal(t, 3, g.Sequences())
	require.InDelta(t, 0.5, g.Statistics.Mean, 1e-9)
	all, _ := r.list(t, rollout.DeliveryFilter{})
	require.Equal(t, []string{"g delivered"}, all)
}

// A worker that is killed between the two writes of the end of a delivery leaves both records. The repeated
// delivery leaves one.
func TestOpenRecordOfAnEndedDelivery(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.finish(t, "g", 5, good)

	spec := rollout.DeliverySpec{GroupID: "g", Sink: "s"}
	r.sink.err = fault.New(fault.Unavailable, "away")
	_, err := r.Deliver(t.Context(), spec)
	require.Error(t, err)

	var open rollout.Delivery

	key := ""

	for k, err := range r.Store.Keys(t.Context(), "deliveries/open/") {
		require.NoError(t, err)

		key = k
	}

	require.NoError(t, r.Store.JSON(t.Context(), key, &open))
	r.sink.err = nil
	_, err = r.Deliver(t.Context(), spec)
	require.NoError(t, err)
	require.NoError(t, r.Store.PutJSON(t.Context(), key, open))

	ended, err := r.Deliver(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, rollout.DeliveryDelivered, ended.State)
	require.Len(t, r.sink.taken, 1)
	all, _ := r.list(t, rollout.DeliveryFilter{})
	require.Equal(t, []string{"g delivered"}, all)
}

func TestOneSequenceOfEachRollout(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(n *delivery.Named) { n.One = true })
	r.finish(t, "g", 5, good, split)
	_, err := r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: "g", Sink: "s"})
	require.NoError(t, err)
	require.Equal(t, 2, r.sink.taken[0].Sequences())
	require.Equal(t, []int32{9, 4, 5}, r.sink.taken[0].Data[1].Trajectory.Sequences[0].TokenIDs)
}

// A group without data for the sink is skipped with a reason. A group that the sink refused can be delivered again.
func TestGroupsThatAreNotTaken(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.finish(t, "empty", 1, empty, "")
	r.finish(t, "part", 2, good, empty, "")

	for id, why := range map[string]string{
		"empty": "1 of 2 rollouts of group empty have a reward, 0 of these have tokens to train on",
		"part":  "2 of 3 rollouts of group part have a reward, 1 of these have tokens to train on; the sink accepts only complete groups (partial: true accepts others)",
	} {
		d, err := r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: id, Sink: "s"})
		require.NoError(t, err)
		require.Equal(t, rollout.DeliverySkipped, d.State)
		require.Equal(t, why, d.Reason)
	}

	r.finish(t, "g", 3, good)
	r.sink.err = fault.New(fault.UpstreamRefused, "422")
	spec := rollout.DeliverySpec{GroupID: "g", Sink: "s"}
	d, err := r.Deliver(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, rollout.DeliveryRefused, d.State)
	all, _ := r.list(t, rollout.DeliveryFilter{})
	require.Equal(t, []string{"g refused", "empty skipped", "part skipped"}, all)

	r.sink.err = nil
	d, err = r.Deliver(t.Context(), spec)
	require.NoError(t, err)
	require.Equal(t, rollout.DeliveryDelivered, d.State)

	_, err = r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: "g", Sink: "x"})
	require.True(t, fault.Is(err, fault.Unavailable), "another worker may have it")
	require.ErrorContains(t, err, `no sink "x" is configured on this worker, which has s`)
	_, err = r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: "none", Sink: "s"})
	require.True(t, fault.Is(err, fault.NotFound))
}

func TestPartialGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(n *delivery.Named) { n.Partial = true })
	r.finish(t, "part", 2, "", good, empty)
	d, err := r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: "part", Sink: "s"})
	require.NoError(t, err)
	require.Equal(t, rollout.DeliveryDelivered, d.State)
	require.Equal(t, 1, d.Rollouts)
	require.Equal(t, "part-1", r.sink.taken[0].Siblings[0].RolloutID)
}

// Lists have open deliveries first, then ended ones, each with the oldest group first, regardless of ids.
// They are paged.
func TestListOfDeliveries(t *testing.T) {
	t.Parallel()

	r := newRig(t)
	for i := range 5 {
		r.finish(t, "g"+strconv.Itoa(9-i), 10+i, good)

		r.sink.err = nil
		if i > 2 {
			r.sink.err = fault.New(fault.Unavailable, "away")
		}
		// an error shows in the states, which are compared below
		_, _ = r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: "g" + strconv.Itoa(9-i), Sink: "s"})
	}

	want := []string{"g6 pending", "g5 pending", "g9 delivered", "g8 delivered", "g7 delivered"}
	all, _ := r.list(t, rollout.DeliveryFilter{})
	require.Equal(t, want, all)

	_, more := r.list(t, rollout.DeliveryFilter{Limit: 5})
	require.Empty(t, more)

	for limit := 1; limit < 6; limit++ {
		var got []string

		f := rollout.DeliveryFilter{Limit: limit}
		for {
			page, next := r.list(t, f)
			require.LessOrEqual(t, len(page), limit)
			got = append(got, page...)

			if f.Cursor = next; next == "" {
				break
			}
		}

		require.Equal(t, want, got)
	}

	for _, c := range []struct {
		f    rollout.DeliveryFilter
		want []string
	}{
		{rollout.DeliveryFilter{State: rollout.DeliveryPending}, want[:2]}, {rollout.DeliveryFilter{State: rollout.DeliveryDelivered}, want[2:]},
		{rollout.DeliveryFilter{Owner: "bob"}, nil}, {rollout.DeliveryFilter{Sink: "other"}, nil}, {rollout.DeliveryFilter{
			Sink:  "s",
			Owner: "alice",
		}, want},
	} {
		got, _ := r.list(t, c.f)
		require.Equal(t, c.want, got)
	}
}

// A page of few deliveries among many reads a bounded number of records. The next pages have the rest.
func TestFewOfManyDeliveries(t *testing.T) {
	t.Parallel()

	const many = 700

	r := newRig(t)

	for i := range many {
		group := "math-2-" + strconv.Itoa(i)
		if i == many-1 {
			group = "math-7"
		}

		key := fmt.Sprintf("deliveries/ended/s/%020d-k.json", i)
		require.NoError(t, r.Store.PutJSON(t.Context(), key, rollout.Delivery{GroupID: group, State: rollout.DeliveryDelivered}))
	}

	f := rollout.DeliveryFilter{ProducerID: "math"}

	page, next := r.list(t, f)
	require.Empty(t, page)
	require.NotEmpty(t, next)

	f.Cursor = next
	page, next = r.list(t, f)
	require.Equal(t, []string{"math-7 delivered"}, page)
	require.Empty(t, next)
}

// A group with a sequence of too many tokens is skipped and marked as too long.
func TestTooLongSequences(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.finish(t, "g", 5, good, good)
	d, err := r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: "g", Sink: "s", MaxTokens: 3})
	require.NoError(t, err)
	require.Equal(t, rollout.DeliverySkipped, d.State)
	require.True(t, d.TooLong)
	require.Contains(t, d.Reason, "a sequence has 3 tokens: it must have fewer than 3")
	require.Empty(t, r.sink.taken)
	r.finish(t, "h", 6, good, good)
	d, err = r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: "h", Sink: "s", MaxTokens: 4})
	require.NoError(t, err)
	require.Equal(t, rollout.DeliveryDelivered, d.State)
}

// If one version of the weights is required, a group sampled by several versions is skipped. Replies
// without a version do not count.
func TestGroupsOfOneVersion(t *testing.T) {
	t.Parallel()
	r := newRig(t)

	at := func(version string) string {
		return strings.Replace(good, `"turn":1`, `"turn":1,"model_version":"`+version+`"`, 1)
	}
	for i, c := range []struct {
		traces []string
		mixed  bool
	}{{[]string{at("a"), at("a")}, false}, {[]string{at("a"), good}, false}, {[]string{at("a"), at("b")}, true}, {[]string{at("a..b")}, true}} {
		id := fmt.Sprint("g", i)
		r.finish(t, id, 1, c.traces...)
		d, err := r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: id, Sink: "s", OneVersion: true})
		require.NoError(t, err)
		require.Equal(t, c.mixed, d.Mixed, id)
		require.Equal(t, c.mixed, d.State == rollout.DeliverySkipped, id)

		if c.mixed {
			require.Equal(
				t,
				`the group must have one version of the weights, got 2, among them "a" and "b": mixed versions`,
				d.Reason,
			)
		}
	}
}

// A group sampled with weights too old for the trainer is skipped. It is delivered if the version or the
// trainer's step is unknown.
func TestStaleGroups(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	old := strings.Replace(good, `"turn":1`, `"turn":1,"model_version":"step-7"`, 1)
	lag := 2

	for i, c := range []struct {
		step  int
		trace string
		stale bool
	}{{9, old, false}, {10, old, true}, {10, good, false}, {0, old, false}} {
		id := fmt.Sprint("g", i)
		r.sink.step = c.step
		r.finish(t, id, 1, good, c.trace)
		d, err := r.Deliver(t.Context(), rollout.DeliverySpec{GroupID: id, Sink: "s", MaxVersionLag: &lag})
		require.NoError(t, err)
		require.Equal(t, c.stale, d.Stale, id)
		require.Equal(t, c.stale, d.State == rollout.DeliverySkipped, id)
	}

	r.sink.step = 10
	for id, want := range map[string]*int64{"fresh": nil, "old": new(int64(3))} {
		r.finish(t, id, 1, map[string]string{"fresh": good, "old": old}[id])
		d, err := r.Deliver(t.Context(), rollout.DeliverySpec{
			GroupID:       id,
			Sink:          "s",
			MaxVersionLag: &lag,
			MarkStale:     true,
		})
		require.NoError(t, err)
		require.Equal(t, rollout.DeliveryDelivered, d.State)
		require.Equal(t, want != nil, d.Stale)
		require.Equal(t, want, r.sink.taken[len(r.sink.taken)-1].Lag, "a marked group has its lag")
	}

	page, err := delivery.Outbox{Store: r.Store}.List(t.Context(), rollout.DeliveryFilter{
		Limit: 10,
		State: rollout.DeliverySkipped,
	})
	require.NoError(t, err)
	require.Equal(
		t,
		"the group must be at most 2 versions behind the trainer's step 10: its version 7 is 3 behind: stale",
		page.Deliveries[0].Reason,
	)
}
