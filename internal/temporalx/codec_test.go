package temporalx_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/proto"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/seal"
	"github.com/rolloutd/rolloutd/internal/temporalx"
)

func testKey(t testing.TB, digit string) seal.Key {
	t.Helper()

	key, err := seal.ParseKey(strings.Repeat(digit, 64))
	require.NoError(t, err)

	return key
}

// A stored payload does not reveal the value, is compressed, and decodes to the value.
func TestDataConverterRoundTrip(t *testing.T) {
	t.Parallel()
	dc := temporalx.DataConverter(testKey(t, "a"))
	spec := rollout.Spec{ID: "r1", Task: rollout.Task{Instruction: strings.Repeat("canary ", 1000)}}
	payload, err := dc.ToPayload(spec)
	require.NoError(t, err)
	stored, err := proto.Marshal(payload)
	require.NoError(t, err)
	require.False(t, bytes.Contains(stored, []byte("canary")))
	require.False(t, bytes.Contains(stored, []byte("json")), "the inner metadata is sealed too")
	require.Less(t, len(stored), 1000)

	var got rollout.Spec
	require.NoError(t, dc.FromPayload(payload, &got))
	require.Equal(t, spec, got)
}

func TestDecodeErrorsAreClear(t *testing.T) {
	t.Parallel()
	sealed, err := temporalx.NewCodec(testKey(t, "a")).Encode([]*commonpb.Payload{{Data: []byte("x")}})
	require.NoError(t, err)

	_, err = temporalx.NewCodec(testKey(t, "b")).Decode(sealed)
	require.Equal(t, fault.Unauthorized, fault.KindOf(err))
	require.ErrorContains(t, err, testKey(t, "a").ID())
	require.ErrorContains(t, err, "ROLLOUTD_ENCRYPTION_KEY")

	sealed[0].Data[len(sealed[0].Data)-1] ^= 1
	_, err = temporalx.NewCodec(testKey(t, "a")).Decode(sealed)
	require.ErrorContains(t, err, "decrypt payload")
}

// An operator may send a signal with Temporal's own tool, without the key.
func TestPlainPayloadPasses(t *testing.T) {
	t.Parallel()

	plain := &commonpb.Payload{
		Metadata: map[string][]byte{"encoding": []byte("json/plain")},
		Data:     []byte(`{"reason":"x"}`),
	}

	var abort rollout.Abort
	require.NoError(t, temporalx.DataConverter(testKey(t, "a")).FromPayload(plain, &abort))
	require.Equal(t, "x", abort.Reason)
}

// Decoding any bytes returns a payload or an error, and encoded payloads decode to themselves.
func FuzzCodec(f *testing.F) {
	codec := temporalx.NewCodec(testKey(f, "a"))
	sealed, err := codec.Encode([]*commonpb.Payload{{Data: []byte("seed")}})
	require.NoError(f, err)
	f.Add("binary/encrypted", string(sealed[0].Metadata["encryption-key-id"]), sealed[0].Data)
	f.Add("json/plain", "", []byte("{}"))
	f.Fuzz(func(t *testing.T, encoding, keyID string, data []byte) {
		p := &commonpb.Payload{
			Metadata: map[string][]byte{"encoding": []byte(encoding), "encryption-key-id": []byte(keyID)},
			Data:     data,
		}
		if got, err := codec.Decode([]*commonpb.Payload{p}); err == nil {
			require.Len(t, got, 1)
			require.NotNil(t, got[0])
		}

		sealed, err := codec.Encode([]*commonpb.Payload{{Data: data}})
		require.NoError(t, err)
		back, err := codec.Decode(sealed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(data, back[0].Data))
	})
}
