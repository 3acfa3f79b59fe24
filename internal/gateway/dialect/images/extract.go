package images

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rawjson"
)

// Image is an image of a prompt.
type Image struct {
	// Message is the index of its message.
	Message int

	// Digest names Data: "sha256:" and 64 hex digits.
	Digest    string
	MediaType string
	Data      []byte

	// Missing says why there is no Data; "": there is.
	Missing string
}

// Max bounds the images of a request that Extract reads.
const Max = 1024

// Extract reads the first Max images of a request's prompt, and returns the request with their digests in place of their
// bytes. An image that the request does not have, such as one with a URL, stays as it is.
func Extract(api reply.API, request []byte) ([]byte, []Image) {
	if !mayHave(request) {
		return request, nil
	}

	object, err := rawjson.ParseObject(request)
	if err != nil {
		// the endpoint refuses it
		return request, nil
	}

	prompt, _ := object.Get(member(api))

	found := find(prompt)
	if len(found) == 0 {
		return request, nil
	}

	found = found[:min(len(found), Max)]
	list, out, at := make([]Image, 0, len(found)), []byte(nil), 0

	for _, p := range found {
		image := p.read(prompt)
		if list = append(list, image); image.Missing == "" {
			out = append(append(out, prompt[at:p.source.from]...), image.Digest...)
			at = p.source.to
		}
	}

	object.Set(member(api), append(out, prompt[at:]...))

	return object.Bytes(), list
}

// read returns the image of a part of the prompt.
func (p *part) read(prompt []byte) Image {
	image := Image{Message: p.message}

	encoded, mediaType := plain(prompt[p.source.from:p.source.to]), plain(p.mediaType)
	if encoded == "" {
		image.Missing = "the request has neither its bytes nor a URL"
		return image
	}

	if !p.bare {
		head, data, _ := strings.Cut(encoded, ",")

		kind, ok := strings.CutSuffix(head, ";base64")
		if !ok || !strings.HasPrefix(kind, "data:") {
			image.Missing = "the request has only its URL"
			return image
		}

		encoded = data
		mediaType, _, _ = strings.Cut(strings.TrimPrefix(kind, "data:"), ";")
	}

	data, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if err != nil || len(data) == 0 {
		image.Missing = "its bytes are not base64"
		return image
	}

	sum := sha256.Sum256(data)
	image.Data, image.Digest = data, "sha256:"+hex.EncodeToString(sum[:])

	if isMediaType(mediaType) {
		image.MediaType = mediaType
	}

	return image
}

// maxMediaType bounds the media type of an image, in bytes.
const maxMediaType = 64

// isMediaType reports whether a text of the agent is the media type of an image.
func isMediaType(text string) bool {
	kind, ok := strings.CutPrefix(text, "image/")
	allowed := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("+-.", r)
	}

	return ok && kind != "" && len(text) <= maxMediaType && strings.TrimFunc(kind, allowed) == ""
}
