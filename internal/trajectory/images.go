package trajectory

import (
	"cmp"
	"fmt"
	"io"

	"github.com/rolloutd/rolloutd/internal/gateway/dialect/images"
	"github.com/rolloutd/rolloutd/internal/gateway/dialect/reply"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/trace"
	"github.com/rolloutd/rolloutd/internal/trajectory/sequence"
)

// imageBook gives the images of a trace their places in the file of images, which has each once.
type imageBook struct {
	// digest → place
	at map[string]int64

	// size of the file so far
	size int64
}

// extract returns a request without the bytes of its images, its images, and the bytes that the file lacks, in order.
func (b *imageBook) extract(api string, request []byte) (rest []byte, refs []rollout.ImageRef, lacks [][]byte) {
	rest, list := images.Extract(reply.API(cmp.Or(api, string(reply.Chat))), request)

	for _, image := range list {
		ref := rollout.ImageRef{
			Message: image.Message, Digest: image.Digest, MediaType: image.MediaType, Bytes: int64(len(image.Data)),
			Missing: image.Missing,
		}

		if image.Missing == "" {
			at, ok := b.at[image.Digest]
			if !ok {
				at = b.add(image.Digest, ref.Bytes)
				lacks = append(lacks, image.Data)
			}

			ref.At = at
		}

		refs = append(refs, ref)
	}

	return rest, refs, lacks
}

func (b *imageBook) add(digest string, size int64) int64 {
	if b.at == nil {
		b.at = map[string]int64{}
	}

	at := b.size
	b.at[digest] = at
	b.size += size

	return at
}

// putImages gives the turn its images; with apart their digests are in the place of their bytes. A turn is not trained on
// if one is lost, since no trainer could give it to the model.
func (b *imageBook) putImages(t *rollout.Turn, apart bool) {
	var rest []byte
	if rest, t.ImageRefs, _ = b.extract(t.API, t.Request); apart {
		t.Request = rest
	}

	if why := lostImage(t); why != "" && (t.Train || sequence.TrainsApart(t)) {
		t.Train, t.Flaws = false, append(t.Flaws, why)
		clear(t.LossMask)
	}
}

// lostImage says which image of a turn's prompt is lost, and why; "": none is.
func lostImage(t *rollout.Turn) string {
	for n, ref := range t.ImageRefs {
		if ref.Missing != "" {
			return fmt.Sprintf("image %d of the prompt, in message %d, is lost: %s", n, ref.Message, ref.Missing)
		}
	}

	if t.Images > len(t.ImageRefs) {
		return fmt.Sprintf("the prompt has %d images, of which only %d are kept", t.Images, len(t.ImageRefs))
	}

	return ""
}

// ExportImages writes the images of all turns, one after another as Export describes them.
func ExportImages(l *trace.Log, w io.Writer) error {
	var book imageBook

	for _, e := range l.Entries() {
		r, err := l.Read(e)
		if err != nil {
			return err
		}

		_, _, lacks := book.extract(r.API, readable(r.Request))
		for _, data := range lacks {
			if _, err := w.Write(data); err != nil {
				return fmt.Errorf("export images: %w", err)
			}
		}
	}

	return nil
}
