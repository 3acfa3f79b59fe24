package rollout

// RoutedExperts says where the experts are that the engine's router chose for the tokens of a call. A row has those of
// one token, layer after layer; the last token of a call has none yet, since the engine has not processed it.
type RoutedExperts struct {
	// Base is the turn whose rows are those of the tokens before Start; 0: none.
	Base int `json:"base,omitempty"`
	// Start is the token of the first of Rows, an index into the prompt and the completion.
	Start int `json:"start,omitempty"`
	Rows  int `json:"rows,omitempty"`

	// Width is the number of experts in a row: Layers × TopK, which are 0 if the endpoint does not name them.
	Width  int `json:"width,omitempty"`
	Layers int `json:"layers,omitempty"`
	TopK   int `json:"top_k,omitempty"`

	// Type is that of an expert's number.
	Type ExpertType `json:"dtype,omitempty"`
	// At is the place of Rows in the file of the rollout's rows, in bytes.
	At int64 `json:"at,omitempty"`
	// Missing says why there are no rows; "": there are.
	Missing string `json:"missing,omitempty"`
}

// ExpertType is the type of the number of an expert, in little endian, by numpy's name.
type ExpertType string

const (
	ExpertUint8  ExpertType = "uint8"
	ExpertUint16 ExpertType = "uint16"
)

// Size returns the bytes of a number.
func (t ExpertType) Size() int {
	if t == ExpertUint16 {
		return 2
	}

	return 1
}

// RowBytes returns the bytes of a row.
func (e *RoutedExperts) RowBytes() int64 { return int64(e.Width) * int64(e.Type.Size()) }

// Bytes returns the bytes of the rows.
func (e *RoutedExperts) Bytes() int64 { return int64(e.Rows) * e.RowBytes() }
