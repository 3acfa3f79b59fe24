package executor

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"path"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxBuffered is how much of an archive is built before its answer begins, in bytes. A failure within it is
// answered with the reason. It is more than AgentEnv's largest archive.
const maxBuffered = 8 << 20

// archivePost answers with a folder as tar.gz in base64, streamed where it is large.
func (a *API) archivePost(w http.ResponseWriter, r *http.Request) {
	in, id, ok := a.artifact(w, r, failedArchive)
	if !ok {
		return
	}

	if in.Format != "" && in.Format != "tar.gz" && in.Format != "tgz" {
		httpio.WriteRefusal(w, fault.Field("format", "must be tar.gz or tgz, got %q", in.Format))
		return
	}

	ctx, cancel := a.Context(r)
	defer cancel()

	if err := a.archive(ctx, w, id, in); err != nil {
		httpio.WriteJSON(w, http.StatusOK, failedArchive(missing(in.Path, err)))
	}
}

// archive writes the answer. It returns an error only if nothing was written yet.
func (a *API) archive(ctx context.Context, w http.ResponseWriter, id string, in artifactRequest) error {
	stream, err := a.tar(ctx, id, in)
	if err != nil {
		return err
	}
	defer stream.Close()

	packed, pipe := io.Pipe()
	defer packed.Close()

	most := packLimits{bytes: bounded(in.MaxBytes, maxArtifact), files: math.MaxInt}
	if in.MaxEntries != nil {
		most.files = max(*in.MaxEntries, 1)
	}

	files := make(chan int, 1)
	// ends with the copy below, or with packed
	go func() {
		n, err := compress(pipe, stream, most)
		pipe.CloseWithError(err)

		files <- n
	}()

	var head bytes.Buffer
	if _, err := io.CopyN(&head, packed, maxBuffered); err != nil && !errors.Is(err, io.EOF) {
		return err
	}

	beginAnswer(w)

	n := encode(w, io.MultiReader(&head, packed))
	endAnswer(w, archiveAnswer{Success: true, Encoding: "base64", Format: "tar.gz", Bytes: n, Entries: <-files})

	return nil
}

// packLimits bound the total size and the number of the files of an archive.
type packLimits struct {
	bytes int64
	files int
}

// compress copies a tar as gzip, and counts its files. Above the limits the error is a fault.Exhausted.
func compress(w io.Writer, r io.Reader, most packLimits) (files int, err error) {
	zip := gzip.NewWriter(w)
	out := tar.NewWriter(zip)

	in := tar.NewReader(r)
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files, errors.Join(out.Close(), zip.Close())
		}

		if err != nil {
			return files, err
		}

		if path.Clean(h.Name) == "." {
			// unpacking it would change the folder of the caller
			continue
		}

		if h.Typeflag == tar.TypeReg {
			files++
		}

		if most.bytes -= h.Size; most.bytes < 0 {
			return files, fault.New(fault.Exhausted, "the archive is larger than max_bytes")
		}

		if files > most.files {
			return files, fault.New(fault.Exhausted, "the archive has more files than max_entries")
		}

		if err := out.WriteHeader(h); err != nil {
			return files, err
		}

		if _, err := io.CopyN(out, in, h.Size); err != nil {
			return files, err
		}
	}
}
