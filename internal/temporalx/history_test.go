package temporalx_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

// kept serves one history.
type kept struct{ events []*historypb.HistoryEvent }

func (k *kept) GetWorkflowHistory(
	context.Context,
	string,
	string,
	bool,
	enumspb.HistoryEventFilterType,
) client.HistoryEventIterator {
	return k
}
func (k *kept) HasNext() bool { return len(k.events) > 0 }
func (k *kept) Next() (*historypb.HistoryEvent, error) {
	event := k.events[0]
	k.events = k.events[1:]

	return event, nil
}

func started(t *testing.T) *kept {
	t.Helper()
	input, err := temporalx.DataConverter(testKey(t, "a")).ToPayloads(rollout.Spec{ID: "r1"})
	require.NoError(t, err)

	return &kept{events: []*historypb.HistoryEvent{{
		EventId: 1,
		Attributes: &historypb.HistoryEvent_WorkflowExecutionStartedEventAttributes{
			WorkflowExecutionStartedEventAttributes: &historypb.WorkflowExecutionStartedEventAttributes{
				Input: input,
				SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{
					"RolloutTask": {Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"t"`)},
				}},
			},
		},
	}}}
}

func TestPlainHistory(t *testing.T) {
	t.Parallel()
	data, err := temporalx.PlainHistory(t.Context(), started(t), testKey(t, "a"), "rollout-r1")
	require.NoError(t, err)

	var h historypb.History
	require.NoError(t, protojson.Unmarshal(data, &h))
	input := h.Events[0].GetWorkflowExecutionStartedEventAttributes().Input.Payloads[0]
	require.Equal(t, "json/plain", string(input.Metadata["encoding"]))
	require.Contains(t, string(input.Data), `"id":"r1"`)
}

func TestPlainHistoryUnderAnotherKey(t *testing.T) {
	t.Parallel()
	_, err := temporalx.PlainHistory(t.Context(), started(t), testKey(t, "b"), "rollout-r1")
	require.Equal(t, fault.Invalid, fault.KindOf(err))
	require.ErrorContains(t, err, "encrypted under key")
}
