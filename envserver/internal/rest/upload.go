package rest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/chi/v5"

	"github.com/rolloutd/rolloutd/envserver/internal/access"
	"github.com/rolloutd/rolloutd/envserver/internal/api"
	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/envserver/internal/reply"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// Uploads stores files that clients send before the rollouts that use them; each owner has separate files.
type Uploads interface {
	// Put stores a file; fault.Invalid: its SHA-256 is not the digest; fault.Exhausted: it is too large.
	Put(ctx context.Context, owner, digest string, r io.Reader) (size int64, err error)
	// Size returns the size of a stored file that is not about to be deleted; fault.NotFound: there is none.
	Size(ctx context.Context, owner, digest string) (int64, error)
}

const (
	// maxUploads bounds the files received in parallel.
	maxUploads = 8
	// slowestUpload is the rate, in bytes per second, below which a transfer is aborted.
	slowestUpload = 256 << 10
)

type uploadRequest struct {
	Digest string `path:"sha256" description:"SHA-256 of the file's content, in hex"`
}

func (a *API) uploadRoutes() []api.Route {
	if a.Uploads == nil {
		return nil
	}

	u := uploader{a: a, slots: make(chan struct{}, maxUploads)}

	return []api.Route{
		api.Put("/uploads/{sha256}", u.putUpload, &api.Operation{
			ID:      "put_upload",
			Tag:     tag,
			Summary: "Upload a file for the argument uploads of later rollouts. The body is the file",
			Reads:   uploadRequest{},
			Answers: reply.Upload{},
			Refuses: api.BodyErrors(http.StatusUnprocessableEntity, http.StatusTooManyRequests),
		}),
		api.Get("/uploads/{sha256}", u.getUpload, &api.Operation{
			ID:      "get_upload",
			Tag:     tag,
			Summary: "Report whether a file is uploaded",
			Reads:   uploadRequest{},
			Answers: reply.Upload{},
			Refuses: api.EngineErrors(http.StatusUnprocessableEntity, http.StatusNotFound),
		}),
	}
}

// uploader receives files.
type uploader struct {
	a *API

	// one is taken while a file arrives
	slots chan struct{}
}

func (u uploader) getUpload(w http.ResponseWriter, r *http.Request) {
	digest := chi.URLParam(r, "sha256")
	size, err := u.a.Uploads.Size(r.Context(), access.CallerOf(r.Context()).Name, digest)
	httpio.WriteAnswer(w, reply.Upload{SHA256: digest, Size: size}, err)
}

func (u uploader) putUpload(w http.ResponseWriter, r *http.Request) {
	digest := chi.URLParam(r, "sha256")
	if err := rollout.CheckUpload(digest); err != nil {
		httpio.WriteRefusal(w, err)
		return
	}

	if !httpio.Plain(w, r) {
		return
	}

	if r.ContentLength > rollout.MaxUploadBytes {
		httpio.WriteDetail(w, http.StatusRequestEntityTooLarge, "Request body too large")
		return
	}

	select {
	case u.slots <- struct{}{}:
		defer func() { <-u.slots }()
	default:
		w.Header().Set("Retry-After", "1")
		httpio.WriteDetail(w, http.StatusServiceUnavailable, "too many files are being sent; try again")

		return
	}

	size, err := u.store(w, r, digest)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		httpio.WriteDetail(w, http.StatusRequestTimeout, "The body did not come in time")
	case r.Context().Err() != nil: // the client is gone
	default:
		httpio.WriteAnswer(w, reply.Upload{SHA256: digest, Size: size}, err)
	}
}

// store stores the body. A client that sends slowly holds its slot for a bounded time.
func (u uploader) store(w http.ResponseWriter, r *http.Request, digest string) (int64, error) {
	size := r.ContentLength
	if size < 0 {
		size = rollout.MaxUploadBytes
	}

	slow := http.NewResponseController(w)
	timeout := u.a.Bodies.Timeout + time.Duration(size/slowestUpload)*time.Second
	// a test's recorder has none
	_ = slow.SetReadDeadline(time.Now().Add(timeout))

	size, err := u.a.Uploads.Put(r.Context(), access.CallerOf(r.Context()).Name, digest, body{r.Body})
	if err == nil {
		_ = slow.SetReadDeadline(time.Time{})
	}

	return size, err
}

// body gives the errors of a client's body a kind: the client can send it again.
type body struct{ r io.Reader }

// Read implements io.Reader.
func (b body) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = fault.Wrap(fault.Invalid, err, "read the body")
	}

	return n, err
}
