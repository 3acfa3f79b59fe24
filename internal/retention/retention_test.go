package retention_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/delivery"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/retention"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/store"
)

const day = 24 * time.Hour

// deployment is a store in a folder.
type deployment struct {
	*store.Store
	dir string
	now time.Time
}

func newDeployment(t *testing.T) *deployment {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })

	return &deployment{Store: s, dir: dir, now: time.Now()}
}

// add stores a rollout that ended so long ago: a result, its head and a workspace of 1000 bytes.
func (d *deployment) add(t *testing.T, id, group string, outcome rollout.Outcome, age time.Duration) {
	t.Helper()

	res := rollout.NewResult(id)
	res.GroupID, res.Outcome = group, outcome
	require.NoError(t, d.PutJSON(t.Context(), store.ResultKey(id), res))
	require.NoError(t, d.PutJSON(t.Context(), store.HeadKey(id), res.Head()))
	d.put(t, store.AttemptKey(id, 1, store.Home), make([]byte, 1000))
	d.put(t, store.AttemptKey(id, 1, store.Trace), []byte("{}"))
	d.age(t, filepath.Join("rollouts", id), age)
}

// age sets the time of the last write of all blobs below a folder.
func (d *deployment) age(t *testing.T, folder string, age time.Duration) {
	t.Helper()

	at := d.now.Add(-age)
	require.NoError(t, filepath.WalkDir(filepath.Join(d.dir, folder), func(path string, _ os.DirEntry, err error) error {
		require.NoError(t, err)
		return os.Chtimes(path, at, at)
	}))
}

func (d *deployment) put(t *testing.T, key string, data []byte) {
	t.Helper()

	_, err := d.PutBytes(t.Context(), key, data)
	require.NoError(t, err)
}

// group stores a group that has ended.
func (d *deployment) group(t *testing.T, id string) rollout.GroupState {
	t.Helper()

	ended := d.now
	g := rollout.GroupState{ID: id, Outcome: rollout.GroupComplete, FinishedAt: &ended}
	require.NoError(t, d.PutJSON(t.Context(), store.GroupKey(id), g))

	return g
}

// deliver records a delivery of a group.
func (d *deployment) deliver(t *testing.T, g rollout.GroupState, state rollout.DeliveryState) {
	t.Helper()

	box, group := delivery.Outbox{Store: d.Store}, delivery.Group{ID: g.ID, Key: g.Key()}
	record, err := box.Begin(t.Context(), "sink", group, d.now)
	require.NoError(t, err)

	record.State = state
	require.NoError(t, box.Save(t.Context(), record, group))
}

func (d *deployment) pruner(p retention.Policy) retention.Pruner {
	return retention.Pruner{Store: d.Store, Policy: p, Now: d.now}
}

// ids returns the ids of a plan's rollouts.
func ids(p retention.Plan) []string {
	var all []string
	for _, r := range p.Delete {
		all = append(all, r.ID)
	}

	return all
}

// Only what is old, has a result, is not pinned and is needed by no trainer is deleted.
func TestPlan(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	d.add(t, "old", "", rollout.Completed, 40*day)
	d.add(t, "older", "", rollout.InfraFailed, 50*day)
	d.add(t, "young", "", rollout.Completed, 10*day)
	d.add(t, "pinned", "", rollout.Completed, 40*day)
	require.NoError(t, retention.Pin(t.Context(), d.Store, "pinned", true))

	d.put(t, store.AttemptKey("running", 1, store.Trace), []byte("{}"))
	d.age(t, "rollouts/running", 40*day)

	groups := map[string]func(id string){
		"pulled":       func(id string) { d.group(t, id) },
		"running-g":    func(string) {},
		"pinned-g":     func(id string) { d.group(t, id); require.NoError(t, retention.Pin(t.Context(), d.Store, id, true)) },
		"pending":      func(id string) { d.deliver(t, d.group(t, id), rollout.DeliveryPending) },
		"refused":      func(id string) { d.deliver(t, d.group(t, id), rollout.DeliveryRefused) },
		"producer-7":   func(id string) { d.group(t, id) },
		"producer-8":   func(id string) { d.deliver(t, d.group(t, id), rollout.DeliveryDelivered) },
		"producer-9t1": func(id string) { d.deliver(t, d.group(t, id), rollout.DeliverySkipped) },
		"ended-1":      func(id string) { d.group(t, id) },
	}
	for id, store := range groups {
		d.add(t, "of-"+id, id, rollout.Completed, 40*day)
		store(id)
	}

	require.NoError(t, d.PutJSON(t.Context(), store.ProducerKey("ended"), producer.State{}))

	plan, err := d.pruner(retention.Policy{OlderThan: 30 * day}).Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"older", "of-ended-1", "of-producer-8", "of-producer-9t1", "of-pulled", "old"}, ids(plan))
	require.Equal(t, map[retention.Reason]int{
		retention.TooYoung: 1, retention.Pinned: 2, retention.NoResult: 1, retention.GroupRuns: 1,
		retention.Unacknowledged: 2, retention.ProducerRuns: 1,
	}, plan.Kept)
	require.Greater(t, plan.Freed(), int64(6*1000))
	require.Greater(t, plan.Bytes, plan.Freed())

	plan, err = d.pruner(retention.Policy{OlderThan: 30 * day, Undelivered: true}).Plan(t.Context())
	require.NoError(t, err)
	require.Contains(t, ids(plan), "of-producer-7")
	require.NotContains(t, ids(plan), "of-pending", "what is recorded as not acknowledged is kept whatever the policy")

	plan, err = d.pruner(retention.Policy{
		OlderThan: 30 * day, Outcomes: []rollout.Outcome{rollout.InfraFailed},
	}).Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"older"}, ids(plan))

	plan, err = d.pruner(retention.Policy{OlderThan: 30 * day, MaxBytes: plan.Bytes - 1}).Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"older"}, ids(plan), "the oldest go until the store is small enough")
}

// A rollout without a result may run. It has lost its workflow if nothing was written for longer than any rollout runs.
func TestRolloutsWithoutAResultGo(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	for id, age := range map[string]time.Duration{
		"running": 119 * day, "lost": 121 * day, "pinned": 121 * day, "kept-0": 121 * day,
	} {
		d.put(t, store.AttemptKey(id, 1, store.Trace), []byte("{}"))
		d.age(t, "rollouts/"+id, age)
	}

	for _, id := range []string{"pinned", "kept"} {
		require.NoError(t, retention.Pin(t.Context(), d.Store, id, true))
	}

	plan, err := d.pruner(retention.Policy{OlderThan: day, Outcomes: []rollout.Outcome{rollout.Aborted}}).Plan(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids(plan), "it has no outcome")

	p := d.pruner(retention.Policy{OlderThan: day})
	plan, err = p.Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"lost"}, ids(plan))
	require.Equal(t, map[retention.Reason]int{retention.NoResult: 1, retention.Pinned: 2}, plan.Kept)

	deleted, err := p.Prune(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	require.NoDirExists(t, filepath.Join(d.dir, "rollouts", "lost"))
	require.DirExists(t, filepath.Join(d.dir, "rollouts", "running"))
}

// A group without a state has lost its workflow if nothing of a rollout was written for longer than any group runs.
func TestRolloutsOfALostGroupGo(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	d.add(t, "running-0", "running", rollout.Completed, 119*day)
	d.add(t, "lost-0", "lost", rollout.Completed, 121*day)

	plan, err := d.pruner(retention.Policy{OlderThan: day, Outcomes: rollout.Outcomes()}).Plan(t.Context())
	require.NoError(t, err)
	require.Empty(t, ids(plan))

	plan, err = d.pruner(retention.Policy{OlderThan: day}).Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"lost-0"}, ids(plan))
	require.Equal(t, map[retention.Reason]int{retention.GroupRuns: 1}, plan.Kept)
}

func TestPolicyRefuses(t *testing.T) {
	t.Parallel()

	for name, p := range map[string]retention.Policy{
		"older-than": {OlderThan: time.Minute},
		"outcome":    {OlderThan: day, Outcomes: []rollout.Outcome{"good"}},
		"max-mib":    {OlderThan: day, MaxBytes: -1},
	} {
		_, err := newDeployment(t).pruner(p).Plan(t.Context())
		require.True(t, fault.Is(err, fault.Invalid), name)
		require.ErrorContains(t, err, name)
	}
}

// Prune deletes all blobs of a rollout and nothing else. What was pinned or written to since the plan stays.
func TestPrune(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	for _, id := range []string{"a", "b", "c", "d"} {
		d.add(t, id, "", rollout.Completed, 40*day)
	}

	d.put(t, "tasks/x.tar", []byte("x"))

	p := d.pruner(retention.Policy{OlderThan: 30 * day})
	plan, err := p.Plan(t.Context())
	require.NoError(t, err)
	require.Len(t, plan.Delete, 4)

	require.NoError(t, retention.Pin(t.Context(), d.Store, "b", true))
	d.put(t, store.AttemptKey("c", 2, store.Trace), []byte("{}"))

	deleted, err := p.Prune(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, 2, deleted)
	require.Equal(t, []string{"b", "c"}, d.living(t))
	require.NoDirExists(t, filepath.Join(d.dir, "rollouts", "a"))
	require.DirExists(t, filepath.Join(d.dir, "rollouts", "b"))

	there, err := d.Exists(t.Context(), "tasks/x.tar")
	require.NoError(t, err)
	require.True(t, there)

	require.NoError(t, retention.Pin(t.Context(), d.Store, "b", false))
	plan, err = p.Plan(t.Context())
	require.NoError(t, err)
	require.Equal(t, []string{"b"}, ids(plan))
}

// A run that ends within a rollout leaves its head, so that the next run finds the rollout and deletes the rest.
func TestPruneGoesOn(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	d.add(t, "a", "", rollout.Completed, 40*day)

	// a folder with a file is no blob that can be deleted
	result := filepath.Join(d.dir, store.ResultKey("a"))
	require.NoError(t, os.Remove(result))
	d.put(t, store.ResultKey("a")+"/x", nil)
	d.age(t, "rollouts", 40*day)

	p := d.pruner(retention.Policy{OlderThan: 30 * day})
	plan, err := p.Plan(t.Context())
	require.NoError(t, err)

	_, err = p.Prune(t.Context(), plan)
	require.Error(t, err)
	require.Equal(t, []string{"a"}, d.living(t))

	there, err := d.Exists(t.Context(), store.AttemptKey("a", 1, store.Home))
	require.NoError(t, err)
	require.False(t, there, "the attempts are deleted before the result")

	require.NoError(t, os.RemoveAll(result))

	plan, err = p.Plan(t.Context())
	require.NoError(t, err)

	deleted, err := p.Prune(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)
	require.Empty(t, d.living(t))
}

// living returns the ids of the rollouts of which the store has any blob.
func (d *deployment) living(t *testing.T) (all []string) {
	t.Helper()

	for key, err := range d.Keys(t.Context(), "rollouts/") {
		require.NoError(t, err)

		id := filepath.Base(filepath.Dir(key))
		if filepath.Base(key) == "head.json" {
			all = append(all, id)
		}
	}

	return all
}

func TestMeasure(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	d.add(t, "a", "", rollout.Completed, 40*day)
	d.put(t, store.AttemptKey("a", 1, store.TraceIndex), []byte("{}"))
	d.put(t, store.AttemptKey("a", 1, store.Transcript), []byte("{}"))
	d.put(t, store.AttemptKey("a", 1, store.Events), []byte("{}"))
	d.put(t, store.AttemptKey("a", 1, "tools/x.json"), []byte("{}"))
	d.put(t, store.GroupKey("g"), []byte("{}"))
	d.put(t, "lonely", []byte("{}"))

	usage, err := retention.Measure(t.Context(), d.Store)
	require.NoError(t, err)

	blobs := map[string]int{}
	for _, u := range usage {
		blobs[u.Kind] = u.Blobs
	}

	require.Equal(t, map[string]int{
		"results": 2, "workspaces": 1, "traces": 2, "transcripts": 1, "logs": 1, "answers of tools": 1, "groups": 1,
		"other": 1,
	}, blobs)
	require.Contains(t, []string{"results", "workspaces"}, usage[0].Kind, "the largest is first")
	require.WithinDuration(t, d.now.Add(-40*day), usage[0].Oldest, time.Minute)
}

// The files of a host are summed by the entries of its data folder, without the store.
func TestMeasureFolder(t *testing.T) {
	t.Parallel()

	dir := t.TempDir()
	for path, size := range map[string]int{
		"images/layers/a": 10, "images/b": 20, "key": 2, "key.lock": 3, "store/rollouts/x": 100,
	} {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, path)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, path), make([]byte, size), 0o600))
	}

	usage, err := retention.MeasureFolder(dir, filepath.Join(dir, "store"))
	require.NoError(t, err)
	require.Len(t, usage, 2)
	require.Equal(t, "host: images", usage[0].Kind)
	require.Equal(t, 2, usage[0].Blobs)
	require.Equal(t, int64(30), usage[0].Bytes)
	require.Equal(t, "host: key", usage[1].Kind)
	require.Equal(t, int64(5), usage[1].Bytes, "a lock counts with what it is kept beside")

	usage, err = retention.MeasureFolder(filepath.Join(dir, "missing"))
	require.NoError(t, err)
	require.Empty(t, usage)
}

// The service applies the rules in turn, deletes nothing that runs, that a sink has not acknowledged or that is kept,
// and counts what it deleted.
func TestService(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	d.add(t, "lost", "", rollout.InfraFailed, 4*day)
	d.add(t, "good", "", rollout.Completed, 4*day)
	d.add(t, "old", "", rollout.Completed, 40*day)
	d.add(t, "kept", "", rollout.Completed, 40*day)
	require.NoError(t, retention.Pin(t.Context(), d.Store, "kept", true))

	d.put(t, store.AttemptKey("runs", 1, store.Home), make([]byte, 1000))
	d.age(t, filepath.Join("rollouts", "runs"), 40*day)

	d.add(t, "pending-0", "pending", rollout.Completed, 40*day)
	d.deliver(t, d.group(t, "pending"), rollout.DeliveryPending)

	reg := prometheus.NewRegistry()
	service := retention.NewService(d.Store, []retention.Policy{
		{OlderThan: 3 * day, Outcomes: []rollout.Outcome{rollout.InfraFailed}},
		{OlderThan: 30 * day},
	}, time.Hour, slog.New(slog.DiscardHandler), reg)
	require.NoError(t, service.Apply(t.Context(), d.now))

	left, err := os.ReadDir(filepath.Join(d.dir, "rollouts"))
	require.NoError(t, err)

	var names []string
	for _, entry := range left {
		names = append(names, entry.Name())
	}

	require.Equal(t, []string{"good", "kept", "pending-0", "runs"}, names)
	require.NoError(t, testutil.GatherAndCompare(reg, strings.NewReader(`
# HELP rolloutd_retention_deleted_rollouts_total Rollouts that the rules of the configuration deleted from the store.
# TYPE rolloutd_retention_deleted_rollouts_total counter
rolloutd_retention_deleted_rollouts_total 2
`), "rolloutd_retention_deleted_rollouts_total"))
}

// Run applies the rules at once, counts a failure, and ends with its context.
func TestServiceRuns(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	d.add(t, "old", "", rollout.Completed, 40*day)

	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error)
	service := retention.NewService(
		d.Store,
		[]retention.Policy{{OlderThan: 30 * day}},
		time.Hour,
		slog.New(slog.DiscardHandler),
		nil,
	)

	go func() { over <- service.Run(ctx) }()

	require.Eventually(t, func() bool {
		there, err := d.Exists(t.Context(), store.ResultKey("old"))
		return err == nil && !there
	}, 10*time.Second, 10*time.Millisecond)
	stop()
	require.ErrorIs(t, <-over, context.Canceled)
}

// The ids that begin with a text are those of groups, and of rollouts outside of these groups.
func TestIDs(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	for _, id := range []string{"ab-0", "ab-1", "abc", "b"} {
		d.add(t, id, "", rollout.Completed, day)
	}

	d.group(t, "ab")

	for begin, want := range map[string][]string{"a": {"ab", "abc"}, "ab-1": {"ab-1"}, "": {"ab", "abc", "b"}, "x": nil} {
		got, err := retention.IDs(t.Context(), d.Store, begin)
		require.NoError(t, err)
		require.Equal(t, want, got, begin)
	}
}

// A record goes when it is old and nothing refers to it: neither a rollout that stays, nor a group, a delivery or a
// producer of one.
func TestRecords(t *testing.T) {
	t.Parallel()

	d := newDeployment(t)
	for group, age := range map[string]time.Duration{"gone-1": 40 * day, "living-1": 10 * day, "pinned-1": 40 * day, "open-1": 40 * day} {
		d.add(t, rollout.MemberID(group, 0, 0), group, rollout.Completed, age)

		state := rollout.DeliveryDelivered
		if group == "open-1" {
			state = rollout.DeliveryPending
		}

		g := d.group(t, group)
		d.deliver(t, g, state)
		require.NoError(t, d.PutJSON(t.Context(), store.NoteKey("sink", g.Key()), true))

		id, _, _ := strings.Cut(group, "-")
		require.NoError(t, d.PutJSON(t.Context(), store.ProducerKey(id), producer.State{}))
	}

	require.NoError(t, retention.Pin(t.Context(), d.Store, "pinned-1", true))
	require.NoError(t, d.PutJSON(t.Context(), store.NoteKey("sink", "registration"), true))
	require.NoError(t, d.PutHost(t.Context(), store.HostRecord{ID: "away"}))
	d.put(t, rollout.TaskFilesKey("month"), []byte("x"))
	d.put(t, rollout.TaskFilesKey("year"), []byte("x"))
	d.put(t, rollout.SetKey("year"), []byte("x"))

	for _, folder := range []string{"groups", "deliveries", "producers", "hosts", "tasks"} {
		d.age(t, folder, 40*day)
	}

	d.age(t, rollout.TaskFilesKey("year"), 365*day)
	d.age(t, rollout.SetKey("year"), 365*day)
	require.NoError(t, d.PutHost(t.Context(), store.HostRecord{ID: "here"}))

	of := func(p retention.Policy) retention.Plan {
		plan, err := d.pruner(p).Plan(t.Context())
		require.NoError(t, err)

		return plan
	}

	require.Empty(t, of(retention.Policy{OlderThan: 30 * day, Outcomes: rollout.Outcomes()}).Records)
	require.Empty(t, of(retention.Policy{OlderThan: 30 * day, MaxBytes: 1 << 30}).Records)

	plan := of(retention.Policy{OlderThan: 30 * day})
	require.Equal(t, map[string]int{"groups": 1, "deliveries": 2, "producers": 1, "hosts": 1, "tasks": 1, "tasksets": 1}, plan.RecordsByKind())

	// used since the plan
	require.NoError(t, d.Renew(t.Context(), rollout.SetKey("year")))

	deleted, err := d.pruner(retention.Policy{OlderThan: 30 * day}).Prune(t.Context(), plan)
	require.NoError(t, err)
	require.Equal(t, 1, deleted)

	for key, want := range map[string]bool{
		store.GroupKey("gone-1"): false, store.GroupKey("living-1"): true, store.GroupKey("pinned-1"): true, store.GroupKey("open-1"): true,
		store.NoteKey("sink", rollout.GroupState{ID: "gone-1"}.Key()): false, store.NoteKey("sink", "registration"): true,
		store.NoteKey("sink", rollout.GroupState{ID: "open-1"}.Key()): true,
		store.ProducerKey("gone"):                                     false, store.ProducerKey("living"): true, store.ProducerKey("pinned"): true,
		store.ProducerKey("open"): true, "hosts/away.json": false, "hosts/here.json": true,
		rollout.TaskFilesKey("month"): true, rollout.TaskFilesKey("year"): false, rollout.SetKey("year"): true,
	} {
		there, err := d.Exists(t.Context(), key)
		require.NoError(t, err)
		require.Equal(t, want, there, key)
	}

	require.NoDirExists(t, filepath.Join(d.dir, "groups", "gone-1"))
	require.Empty(t, of(retention.Policy{OlderThan: 30 * day}).Records)
}
