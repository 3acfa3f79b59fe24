package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// WriteFile writes data to an absolute path and creates missing parents. It replaces an existing file, and
// follows no link that a process of the sandbox could have made. Of mode only the permission bits count.
func (s *Sandbox) WriteFile(ctx context.Context, path string, data io.Reader, mode fs.FileMode) error {
	return s.json(ctx, call{
		method: http.MethodPut,
		path:   "/v1/files",
		query:  s.file(path, "mode", fmt.Sprintf("%#o", mode.Perm())),
		body:   io.NopCloser(data),
	}, nil)
}

// ReadFile returns the regular file at path, at most limit bytes. A missing file is a fault.NotFound; a
// link, a directory, a device, or a larger file is a fault.Invalid.
func (s *Sandbox) ReadFile(ctx context.Context, path string, limit int64) ([]byte, error) {
	c := call{method: http.MethodGet, path: "/v1/files", query: s.file(path, "limit", strconv.FormatInt(limit, 10))}

	res, err := s.do(ctx, c)
	if err != nil {
		return nil, err
	}
	defer freeConnection(res)

	data, err := io.ReadAll(io.LimitReader(res.Body, limit+1))
	if err != nil {
		return nil, s.broken(ctx, c, err)
	}

	if int64(len(data)) > limit {
		return nil, fault.New(fault.Invalid, "%s: more than %d bytes", path, limit)
	}

	return data, nil
}

// Remove removes path and everything below it. It removes links, not their targets. A missing path is not an error.
func (s *Sandbox) Remove(ctx context.Context, path string) error {
	return s.json(ctx, call{method: http.MethodDelete, path: "/v1/files", query: s.file(path)}, nil)
}

// PutTar unpacks r into the directory path, which is created if missing. An entry that would be outside is
// a fault.Invalid. The bounds are those of GetTar.
func (s *Sandbox) PutTar(ctx context.Context, path string, r io.Reader) error {
	return s.json(ctx, call{
		method: http.MethodPut, path: "/v1/tar", query: s.file(path), body: io.NopCloser(r),
	}, nil)
}

// Restore makes the directory path equal to the tar r: it removes other files, and does not rewrite files
// that are equal. It leaves out the entries of the tar in skip, with all below them. The bounds are those of
// GetTar.
func (s *Sandbox) Restore(ctx context.Context, path string, r io.Reader, skip ...string) error {
	query := s.file(path, "exact", "true")
	query["skip"] = skip

	return s.json(ctx, call{method: http.MethodPut, path: "/v1/tar", query: query, body: io.NopCloser(r)}, nil)
}

// Changes lists what has changed in the given folders of the image since the sandbox started, without the
// folders that a verifier's sandbox gets anyway. It has at most wire.MaxChanges entries.
func (s *Sandbox) Changes(ctx context.Context, folders ...string) ([]wire.Change, error) {
	var all []wire.Change

	err := s.json(ctx, call{method: http.MethodGet, path: "/v1/changes", query: url.Values{"in": folders}}, &all)

	return all, err
}

// GetTar streams path, a directory or a regular file, as a tar with names relative to it. It omits sockets,
// FIFOs and devices. A tree with more bytes or entries than sandboxd allows is a fault.OutOfDisk; one with
// longer names or deeper folders is a fault.Invalid. Both are returned before the first byte. If the stream
// breaks, its reader returns an error.
func (s *Sandbox) GetTar(ctx context.Context, path string) (io.ReadCloser, error) {
	return s.tar(ctx, s.file(path))
}

// GetHome streams the agent's home as GetTar does. Folder n of the changed ones is at n below the base of
// wire.AgentChanged.
func (s *Sandbox) GetHome(ctx context.Context, changed []string) (io.ReadCloser, error) {
	query := s.file(wire.AgentHome)
	query["changed"] = changed

	return s.tar(ctx, query)
}

func (s *Sandbox) tar(ctx context.Context, query url.Values) (io.ReadCloser, error) {
	c := call{method: http.MethodGet, path: "/v1/tar", query: query}

	res, err := s.do(ctx, c)
	if err != nil {
		return nil, err
	}

	return &stream{ctx: ctx, body: res.Body, sandbox: s, call: c}, nil
}

// stream adds fault kinds to the errors of a long body.
type stream struct {
	// the request's context: a body lives as long
	ctx     context.Context
	body    io.ReadCloser
	sandbox *Sandbox
	call    call
}

func (r *stream) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.sandbox.broken(r.ctx, r.call, err)
	}

	return n, err
}

func (r *stream) Close() error { return r.body.Close() }

// file returns the query for a file, the user who asks for it, and further parameters as key, value.
func (s *Sandbox) file(path string, more ...string) url.Values {
	q := url.Values{"path": {path}}
	if s.user != "" {
		q.Set("user", s.user)
	}

	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}

	return q
}
