package temporalx

import (
	"slices"

	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/proto"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/seal"
)

// The metadata of an encrypted payload.
const (
	encodingKey       = "encoding"
	encodingEncrypted = "binary/encrypted"
	keyIDKey          = "encryption-key-id"
)

// payloadPurpose is the purpose of the box that seals payloads; see seal.Key.Box.
const payloadPurpose = "temporal payload"

// DataConverter is the SDK's default converter with compression and encryption.
func DataConverter(key seal.Key) converter.DataConverter {
	return converter.NewCodecDataConverter(converter.GetDefaultDataConverter(), Codecs(key)...)
}

// Codecs returns the codecs of a payload, outermost first. Compression is the inner one, since encrypted
// bytes do not compress.
func Codecs(key seal.Key) []converter.PayloadCodec {
	return []converter.PayloadCodec{NewCodec(key), compression{converter.NewZlibCodec(converter.ZlibCodecOptions{})}}
}

// compressFrom is the size in bytes from which a payload is compressed. A compressor takes 0.8 MB of memory
// for any payload, and most payloads of a rollout have a few hundred bytes.
const compressFrom = 4 << 10

// compression compresses large payloads only. It reads small ones that are compressed, too: histories of
// earlier versions have them.
type compression struct{ converter.PayloadCodec }

// Encode compresses the large payloads.
func (c compression) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := slices.Clone(payloads)
	for i, p := range payloads {
		if proto.Size(p) < compressFrom {
			continue
		}

		compressed, err := c.PayloadCodec.Encode([]*commonpb.Payload{p})
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "compress payload")
		}

		out[i] = compressed[0]
	}

	return out, nil
}

// Codec encrypts whole payloads, metadata included, with AES-256-GCM.
type Codec struct {
	box   seal.Box
	keyID string
}

// NewCodec returns the codec of a deployment's key.
func NewCodec(key seal.Key) *Codec { return &Codec{box: key.Box(payloadPurpose), keyID: key.ID()} }

// Encode encrypts each payload.
func (c *Codec) Encode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := proto.Marshal(p)
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "encrypt payload")
		}

		out[i] = &commonpb.Payload{
			Metadata: map[string][]byte{encodingKey: []byte(encodingEncrypted), keyIDKey: []byte(c.keyID)},
			Data:     c.box.Seal(plain),
		}
	}

	return out, nil
}

// Decode decrypts each payload. Payloads that are not encrypted pass unchanged: people and clients in other
// languages send signals in plain text.
func (c *Codec) Decode(payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
	out := make([]*commonpb.Payload, len(payloads))
	for i, p := range payloads {
		plain, err := c.open(p)
		if err != nil {
			return nil, err
		}

		out[i] = plain
	}

	return out, nil
}

func (c *Codec) open(p *commonpb.Payload) (*commonpb.Payload, error) {
	if string(p.GetMetadata()[encodingKey]) != encodingEncrypted {
		return p, nil
	}

	if id := string(p.GetMetadata()[keyIDKey]); id != c.keyID {
		return nil, fault.New(fault.Unauthorized, "payload is encrypted under key %q, this process holds key %q: "+
			"give every role the same key (the file \"key\" of one data folder, or ROLLOUTD_ENCRYPTION_KEY)", id, c.keyID)
	}

	plain, err := c.box.Open(p.GetData())
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "decrypt payload")
	}

	out := &commonpb.Payload{}
	if err := proto.Unmarshal(plain, out); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "decrypt payload")
	}

	return out, nil
}
