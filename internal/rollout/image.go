package rollout

// ImageRef is an image of a prompt. The prompt's ids have only placeholders for it.
type ImageRef struct {
	// Message is the index of its message in the request's messages, or input.
	Message int `json:"message"`
	// Digest is the SHA-256 of the image's bytes: "sha256:" and 64 hex digits.
	Digest string `json:"digest,omitempty"`
	// MediaType is that which the agent names; "": none that is an image's.
	MediaType string `json:"media_type,omitempty"`
	// At and Bytes are its place in the file of the rollout's images.
	At    int64 `json:"at"`
	Bytes int64 `json:"bytes,omitempty"`
	// Missing says why the file does not have it; "": it does.
	Missing string `json:"missing,omitempty"`
}
