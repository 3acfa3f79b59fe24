package envserver_test

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/envserver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/producer"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// fakeDeliveries keeps deliveries in memory. They stay pending.
type fakeDeliveries struct {
	mu  sync.Mutex
	all []rollout.Delivery

	// by group id
	owners map[string]string
}

func (f *fakeDeliveries) Deliver(_ context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	if spec.Sink == "" {
		return rollout.Delivery{}, fault.Field("sink", "must be the name of a sink")
	}

	d := rollout.Delivery{
		Sink:    spec.Sink,
		GroupID: spec.GroupID,
		Key:     spec.GroupID + "-k",
		Owner:   f.owners[spec.GroupID],
		State:   rollout.DeliveryPending,
	}
	f.all = append(f.all, d)

	return d, nil
}

func (f *fakeDeliveries) Delivery(_ context.Context, spec rollout.DeliverySpec) (rollout.Delivery, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	for _, d := range f.all {
		if d.GroupID == spec.GroupID && d.Sink == spec.Sink {
			return d, nil
		}
	}

	return rollout.Delivery{}, fault.New(
		fault.NotFound,
		"group %q was not delivered to sink %q",
		spec.GroupID,
		spec.Sink,
	)
}

func (f *fakeDeliveries) Deliveries(_ context.Context, q rollout.DeliveryFilter) (rollout.DeliveryPage, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	page := rollout.DeliveryPage{Deliveries: []rollout.Delivery{}}

	// no cursor: from the first one on
	begin, _ := strconv.Atoi(strings.TrimPrefix(q.Cursor, "deliveries/"))

	for i, d := range f.all[begin:] {
		if q.Owner != "" && d.Owner != q.Owner || q.State != "" && d.State != q.State || q.Sink != "" && d.Sink != q.Sink ||
			q.ProducerID != "" && !producer.Owns(q.ProducerID, d.GroupID) {
			continue
		}

		if len(page.Deliveries) == q.Limit {
			page.Next = "deliveries/" + strconv.Itoa(begin+i)
			break
		}

		page.Deliveries = append(page.Deliveries, d)
	}

	return page, nil
}

// A client delivers its own groups only and sees their deliveries only.
func TestDeliveriesOverREST(t *testing.T) {
	t.Parallel()

	groups := &fakeGroups{states: map[string]rollout.GroupState{}}
	r := shared(t, func(o *envserver.Options) {
		o.Groups, o.Deliveries = groups, &fakeDeliveries{owners: map[string]string{"g": "alice"}}
	})
	_, _, _ = r.do("POST", "/groups", groupBody("g"), "Authorization", alice)
	status, _, out := r.do("POST", "/groups/g/deliver", `{"sink":"s"}`, "Authorization", alice)
	require.Equal(t, http.StatusAccepted, status, out)
	require.Equal(t, "pending", object(t, out)["state"])

	status, _, _ = r.do("POST", "/groups/g/deliver", `{"sink":"s"}`, "Authorization", bob)
	require.Equal(t, http.StatusNotFound, status)
	status, _, out = r.do("POST", "/groups/g/deliver", `{}`, "Authorization", alice)
	require.Equal(t, http.StatusUnprocessableEntity, status, out)

	for token, want := range map[string]int{alice: http.StatusOK, bob: http.StatusNotFound, admin: http.StatusOK} {
		status, _, _ := r.do("GET", "/groups/g/deliveries/s", "", "Authorization", token)
		require.Equal(t, want, status, token)
	}

	for token, want := range map[string]int{alice: 1, bob: 0, admin: 1} {
		_, _, out := r.do("GET", "/deliveries?state=pending", "", "Authorization", token)
		require.Len(t, object(t, out)["deliveries"], want, token)
	}

	status, _, _ = r.do("GET", "/deliveries?limit=x", "", "Authorization", alice)
	require.Equal(t, http.StatusUnprocessableEntity, status)
}
