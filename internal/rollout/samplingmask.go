package rollout

// SamplingMask says where the tokens are from which the sampler chose those of a call's completion: the ones that top_k,
// top_p and min_p left. The log probabilities of such a completion are those among these tokens.
type SamplingMask struct {
	// Rows counts the completion's tokens, and IDs the tokens of all rows.
	Rows int `json:"rows,omitempty"`
	IDs  int `json:"ids,omitempty"`

	// At is the place in the file of routed experts, in bytes: the number of each row's tokens, then the tokens of all
	// rows, as numbers of 32 bits in little endian.
	At int64 `json:"at,omitempty"`
	// Missing says why there are no rows; "": there are. Such a turn is not trained on.
	Missing string `json:"missing,omitempty"`
}

// Bytes returns the bytes of the rows.
func (m *SamplingMask) Bytes() int64 {
	const number = 4

	return number * (int64(m.Rows) + int64(m.IDs))
}
