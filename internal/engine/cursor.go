package engine

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// cursorOf is Temporal's token for the next page as callers are given it: with a checksum, since Temporal calls a token that it
// cannot read a fault of its own, and would be asked again until the caller's time is up.
func cursorOf(token []byte) string {
	if len(token) == 0 {
		return ""
	}
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(token, crc32.ChecksumIEEE(token)))
}

func tokenOf(cursor string) ([]byte, error) {
	if cursor == "" {
		return nil, nil
	}
	data, err := base64.RawURLEncoding.DecodeString(cursor)
	end := len(data) - crc32.Size
	if err != nil || end < 0 || binary.BigEndian.Uint32(data[end:]) != crc32.ChecksumIEEE(data[:end]) {
		return nil, fault.Field("cursor", "is none that a list has given")
	}
	return data[:end], nil
}
