package temporalx

import (
	"context"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// Histories is the part of a client that reads histories.
type Histories interface {
	GetWorkflowHistory(
		ctx context.Context,
		workflowID, runID string,
		isLongPoll bool,
		filter enumspb.HistoryEventFilterType,
	) client.HistoryEventIterator
}

// PlainHistory returns a workflow's history with decrypted payloads, as the JSON that Temporal's replayer
// reads. Replay tests and people use it. It contains the workflow's whole input.
func PlainHistory(ctx context.Context, c Histories, key seal.Key, workflowID string) ([]byte, error) {
	var h historypb.History

	for it := c.GetWorkflowHistory(ctx, workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		if err != nil {
			return nil, fault.Wrap(serviceKind(err), err, "history of %q", workflowID)
		}

		h.Events = append(h.Events, event)
	}

	if err := decrypt(ctx, &h, Codecs(key)); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "history of %q", workflowID)
	}

	return protojson.MarshalOptions{Multiline: true}.Marshal(&h)
}

func decrypt(ctx context.Context, h *historypb.History, codecs []converter.PayloadCodec) error {
	return proxy.VisitPayloads(ctx, h, proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true, // they were never encrypted
		Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, codec := range codecs {
				var err error
				if payloads, err = codec.Decode(payloads); err != nil {
					return nil, err
				}
			}

			return payloads, nil
		},
	})
}
