package envserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// fakeGroups is an in-memory engine of groups. A group runs until its state has an outcome.
type fakeGroups struct {
	mu     sync.Mutex
	states map[string]rollout.GroupState

	// gets the members with a reward
	rollouts *fake

	// a group starts, and the answer comes after the client has left
	answersLate bool
}

func (f *fakeGroups) StartGroup(ctx context.Context, g rollout.GroupSpec) (rollout.GroupState, error) {
	s, err := f.startGroup(g)
	if f.answersLate {
		<-ctx.Done()
		return s, ctx.Err()
	}

	return s, err
}

func (f *fakeGroups) startGroup(g rollout.GroupSpec) (rollout.GroupState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if s, ok := f.states[g.ID]; ok {
		return s, nil
	}

	s := rollout.GroupState{
		ID:      g.ID,
		TaskID:  g.Member.Task.ID,
		Owner:   g.Member.Owner,
		Size:    g.Size,
		Members: []rollout.Member{},
	}
	for i := range g.Size {
		s.Members = append(s.Members, rollout.Member{Index: i, RolloutID: g.MemberSpec(i, 0).ID})
	}

	f.states[g.ID] = s

	return s, nil
}

// finish ends a group. Members with a reward are completed, the others are lost.
func (f *fakeGroups) finish(id string, rewards ...*float64) {
	f.mu.Lock()
	defer f.mu.Unlock()

	s := f.states[id]

	s.Outcome = rollout.GroupPartial
	for i, r := range rewards {
		s.Members[i].Outcome, s.Members[i].Reward = rollout.InfraFailed, r
		if r != nil {
			s.Members[i].Outcome = rollout.Completed
			f.rollouts.started(s.Members[i].RolloutID)
		}
	}

	f.states[id] = s
}

func (f *fakeGroups) Group(_ context.Context, id string) (rollout.GroupState, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	s, ok := f.states[id]
	if !ok {
		return s, fault.New(fault.NotFound, "no group %q", id)
	}

	return s, nil
}

func (f *fakeGroups) WaitGroup(ctx context.Context, id string) (rollout.GroupState, error) {
	return f.Group(ctx, id)
}

func (f *fakeGroups) GroupOwner(ctx context.Context, id string) (string, error) {
	s, err := f.Group(ctx, id)
	return s.Owner, err
}

func (f *fakeGroups) AbortGroup(ctx context.Context, id, _ string) (bool, error) {
	s, err := f.Group(ctx, id)
	if err != nil || s.Done() {
		return false, err
	}

	f.mu.Lock()
	defer f.mu.Unlock()

	s.Outcome = rollout.GroupAborted
	f.states[id] = s

	return true, nil
}

func (f *fakeGroups) Groups(_ context.Context, q rollout.Filter) (rollout.GroupPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	page := rollout.GroupPage{Groups: []rollout.ListedGroup{}}

	for _, s := range f.states {
		if q.Owner == "" || s.Owner == q.Owner {
			listed := rollout.ListedGroup{ID: s.ID, Outcome: s.Outcome, Size: &s.Size}
			if statistics := rollout.StatisticsOf(s.Rewards()); s.Done() && len(s.Rewards()) > 0 {
				listed.MeanReward = &statistics.Mean
			}

			page.Groups = append(page.Groups, listed)
		}
	}

	return page, nil
}

// withGroups starts a server that has groups.
func withGroups(t *testing.T, change ...func(*envserver.Options)) (*rig, *fakeGroups) {
	t.Helper()

	groups := &fakeGroups{states: map[string]rollout.GroupState{}}

	return start(t, append(change, func(o *envserver.Options) {
		groups.rollouts = o.Rollouts.(*fake)
		o.Groups = groups
	})...), groups
}

func groupBody(id string) string {
	body := task("", "x")
	delete(body, "rollout_id")
	body["group_id"], body["group_size"] = id, 2
	// a map of plain values always encodes
	text, _ := json.Marshal(body)

	return string(text)
}

func TestGroupsOverREST(t *testing.T) {
	t.Parallel()
	r, groups := withGroups(t)
	status, _, out := r.do("POST", "/groups", groupBody("g"))
	require.Equal(t, http.StatusAccepted, status, out)
	require.Equal(t, "g-1", valueAt(t, object(t, out), "members", 1, "rollout_id"))

	status, _, out = r.do("GET", "/groups/g/trajectory", "")
	require.Equal(t, http.StatusConflict, status)
	require.Contains(t, out, "group g is not done yet (0 of 2 members)")

	one := 1.0
	groups.finish("g", &one)

	status, _, out = r.do("GET", "/groups/g", "")
	require.Equal(t, http.StatusOK, status)
	require.InDelta(t, 1, valueAt(t, object(t, out), "statistics", "mean"), 0)

	_, _, out = r.do("GET", "/groups?status=done&limit=1", "")
	require.Len(t, object(t, out)["groups"], 1)

	status, _, _ = r.do("GET", "/groups?limit=0", "")
	require.Equal(t, http.StatusUnprocessableEntity, status)
	status, _, out = r.do("POST", "/groups/g/abort", `{"reason":"enough"}`)
	require.Equal(t, http.StatusOK, status)
	require.JSONEq(t, `{"group_id":"g","aborted":false}`, out)
	status, _, out = r.do("POST", "/groups", strings.ReplaceAll(groupBody("g"), `"group_size":2`, `"group_size":1000`))
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, out, "group_size")
}

// A server without an engine of groups has neither the routes nor the tool of groups.
func TestNoGroups(t *testing.T) {
	t.Parallel()
	r := start(t, func(o *envserver.Options) { o.Groups = nil })
	status, _, _ := r.do("GET", "/groups", "")
	require.Equal(t, http.StatusNotFound, status)

	_, _, out := r.do("POST", "/mcp", `{"jsonrpc":"2.0","method":"tools/list","id":1}`)
	require.NotContains(t, out, "run_group")
}

// The group of another client is not found, with the same message as a group that does not exist.
func TestGroupsOfOthersAreNotFound(t *testing.T) {
	t.Parallel()

	groups := &fakeGroups{states: map[string]rollout.GroupState{}}
	r := shared(t, func(o *envserver.Options) { o.Groups = groups })
	status, _, out := r.do("POST", "/groups", groupBody("g"), "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)
	require.Equal(t, "alice", groups.states["g"].Owner)

	for _, at := range []string{"GET ", "GET /trajectory", "POST /abort"} {
		method, path, _ := strings.Cut(at, " ")
		status, _, out := r.do(method, "/groups/g"+path, "", "Authorization", bob)
		require.Equal(t, http.StatusNotFound, status, at)

		_, _, none := r.do(method, "/groups/x"+path, "", "Authorization", bob)
		require.Equal(t, strings.ReplaceAll(none, `\"x\"`, `\"g\"`), out, at)
	}

	status, _, out = r.do("POST", "/groups", groupBody("g"), "Authorization", bob)
	require.Equal(t, http.StatusConflict, status)
	require.NotContains(t, out, "alice")

	for token, want := range map[string]int{alice: 1, bob: 0, admin: 1} {
		_, _, out := r.do("GET", "/groups", "", "Authorization", token)
		require.Len(t, object(t, out)["groups"], want, token)
	}

	body := strings.Replace(groupBody("h"), "{", `{"sandbox":{"memory":"8GiB"},`, 1)
	status, _, out = r.do("POST", "/groups", body, "Authorization", alice)
	require.Equal(t, http.StatusUnprocessableEntity, status, "the token's bound holds for each member")
	require.Contains(t, out, "sandbox.memory")
}

// A client that leaves while its group starts ends the group, if it has asked for that.
func TestClientLeavesWhileItsGroupStarts(t *testing.T) {
	t.Parallel()

	r, groups := withGroups(t)
	groups.answersLate = true
	c := r.dial("/ws")
	c.send(call("run_group", task("", waits, "group_id", "g", "group_size", 2, "on_disconnect", "abort")))
	r.eventually(func() bool { _, err := groups.Group(t.Context(), "g"); return err == nil }, "the group starts")
	require.NoError(t, c.Close())
	r.eventually(func() bool {
		s, err := groups.Group(t.Context(), "g")
		return err == nil && s.Outcome == rollout.GroupAborted
	}, "the group is aborted")
}
