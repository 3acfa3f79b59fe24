package envd

import (
	"encoding/json"

	"connectrpc.com/connect"
)

// Codec encodes plain structs as the JSON of the Connect protocol, without generated code.
type Codec struct{}

var _ connect.Codec = Codec{}

// Name implements connect.Codec.
func (Codec) Name() string { return "json" }

// Marshal implements connect.Codec.
func (Codec) Marshal(v any) ([]byte, error) { return json.Marshal(v) }

// Unmarshal implements connect.Codec.
func (Codec) Unmarshal(data []byte, v any) error { return json.Unmarshal(data, v) }
