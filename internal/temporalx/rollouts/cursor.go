package rollouts

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// cursorOf is a checksum followed by Temporal's page token; "" for the end of a list. Temporal reports a
// token that it cannot read as an error of its database, which the SDK would retry until the time is up.
func cursorOf(token []byte) string {
	if len(token) == 0 {
		return ""
	}

	return base64.RawURLEncoding.EncodeToString(
		append(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(token)), token...),
	)
}

// tokenOf is the page token of a cursor.
func tokenOf(cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}

	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) <= crc32.Size || binary.BigEndian.Uint32(raw) != crc32.ChecksumIEEE(raw[crc32.Size:]) {
		return nil, fault.Field("cursor", "not a cursor returned by this list")
	}

	return raw[crc32.Size:], nil
}
