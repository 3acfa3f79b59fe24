package reply_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
)

// Data that only keeps a connection alive is not an event of the reply, because an endpoint that sends
// nothing else hangs.
func TestPingsAreNoEvents(t *testing.T) {
	t.Parallel()

	for api, events := range map[reply.API][2]string{
		reply.Messages:  {`{"type": "ping"}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ping"}}`},
		reply.Responses: {`{"type":"keepalive","sequence_number":3}`, `{"type":"response.output_text.delta","delta":"keepalive"}`},
	} {
		s := reply.NewStream(&reply.Reply{API: api})

		for i, data := range events {
			event := "data: " + data + "\n\n"
			require.NoError(t, s.Advance(copy(s.Room(len(event)), event)))
			require.Equal(t, i, s.Events(), api)
		}
	}
}
