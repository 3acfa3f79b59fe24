package rollouts

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// cursorOf is Temporal's page token behind its checksum; "" for the end of a list. Temporal takes a token that it cannot read for trouble of its
// database, and is asked again until the time is up.
func cursorOf(token []byte) string {
	if len(token) == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(append(binary.BigEndian.AppendUint32(nil, crc32.ChecksumIEEE(token)), token...))
}

// tokenOf is the page token of a cursor.
func tokenOf(cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) <= crc32.Size || binary.BigEndian.Uint32(raw) != crc32.ChecksumIEEE(raw[crc32.Size:]) {
		return nil, fault.Field("cursor", "is none that a list has given: want next of the page before, whole")
	}
	return raw[crc32.Size:], nil
}
