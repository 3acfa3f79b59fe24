package executor

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/rolloutd/rolloutd/envserver/internal/httpio"
	"github.com/rolloutd/rolloutd/internal/episode"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// artifactRequest asks for a file or folder of the workspace.
type artifactRequest struct {
	TrajectoryID string `json:"trajectory_id"`
	Path         string `json:"path"`

	// of read: text or base64
	Encoding      string `json:"encoding"`
	MaxBytes      *int64 `json:"max_bytes"`
	IncludeSHA256 bool   `json:"include_sha256"`
	Recursive     bool   `json:"recursive"`
	MaxEntries    *int   `json:"max_entries"`

	// of archive
	Format string `json:"format"`
}

const (
	// maxText bounds a file that is read as text, in bytes: it is held in memory.
	maxText = 16 << 20
	// maxArtifact bounds a file that is read as base64, and an archive, in bytes.
	maxArtifact = 1 << 30
	// maxListed bounds a list.
	maxListed = 5000
)

// failure is the answer to a request for an artifact that cannot be read. Its status is 200, as in AgentEnv.
type failure struct {
	Success bool   `json:"success"`
	Error   string `json:"error"`
}

func failed(w http.ResponseWriter, err error) {
	httpio.WriteJSON(w, http.StatusOK, failure{Error: err.Error()})
}

// missing returns AgentEnv's error text for a path that does not exist; it returns other errors unchanged.
func missing(p string, err error) error {
	if fault.Is(err, fault.NotFound) {
		return errors.New("Not found: " + p)
	}

	return err
}

// artifact reads a request and finds its rollout. If ok is false, the request has been answered.
func (a *API) artifact(w http.ResponseWriter, r *http.Request) (in artifactRequest, id string, ok bool) {
	in, ok = read[artifactRequest](a, w, r)
	if !ok {
		return in, "", false
	}

	if in.Path == "" {
		in.Path = "."
	}

	id, found, err := a.find(r.Context(), in.TrajectoryID)
	if err == nil && !found {
		//nolint:staticcheck // AgentEnv's words
		err = errors.New("No active slot for trajectory (run a sandbox tool first)")
	}

	if err == nil && !inWorkspace(in.Path) {
		err = errors.New("Access denied: path outside workspace") //nolint:staticcheck // the same
	}

	if err != nil {
		failed(w, err)
		return in, "", false
	}

	return in, id, true
}

func inWorkspace(p string) bool {
	if !path.IsAbs(p) {
		p = path.Join(rollout.Workdir, p)
	}

	p = path.Clean(p)

	return p == rollout.Workdir || strings.HasPrefix(p, rollout.Workdir+"/")
}

func bounded(asked *int64, most int64) int64 {
	if asked == nil {
		return most
	}

	return min(max(*asked, 1), most)
}

func (a *API) listPost(w http.ResponseWriter, r *http.Request) {
	in, id, ok := a.artifact(w, r)
	if !ok {
		return
	}

	limit := maxListed
	if in.MaxEntries != nil {
		limit = min(max(*in.MaxEntries, 1), maxListed)
	}

	ctx, cancel := a.Context(r)
	defer cancel()

	entries, more, err := a.Episodes.List(ctx, id, in.Path, in.Recursive, limit)
	if err != nil {
		failed(w, missing(in.Path, err))
		return
	}

	httpio.WriteJSON(w, http.StatusOK, struct {
		Success   bool            `json:"success"`
		Entries   []episode.Entry `json:"entries"`
		Truncated bool            `json:"truncated"`
		Error     string          `json:"error"`
	}{true, entries, more, ""})
}

// readPost streams a file.
func (a *API) readPost(w http.ResponseWriter, r *http.Request) {
	in, id, ok := a.artifact(w, r)
	if !ok {
		return
	}

	most := int64(maxArtifact)

	switch in.Encoding {
	case "base64":
	case "", "text":
		in.Encoding, most = "text", maxText
	default:
		httpio.WriteRefusal(w, fault.Field("encoding", "must be text or base64, got %q", in.Encoding))
		return
	}

	ctx, cancel := a.Context(r)
	defer cancel()

	if err := a.read(ctx, w, id, in, bounded(in.MaxBytes, most)); err != nil {
		failed(w, err)
	}
}

// read writes the answer. It returns an error only if nothing was written yet.
func (a *API) read(ctx context.Context, w http.ResponseWriter, id string, in artifactRequest, most int64) error {
	stream, err := a.Episodes.Tar(ctx, id, in.Path)
	if err != nil {
		return missing(in.Path, err)
	}
	defer stream.Close()

	archive := tar.NewReader(stream)

	h, err := archive.Next()
	switch {
	case errors.Is(err, io.EOF): // an empty folder
		return errors.New("Not a file: " + in.Path)
	case err != nil:
		return fault.Wrap(fault.KindOf(err), err, "read %s", in.Path)
	case h.Typeflag != tar.TypeReg || h.Name != path.Base(relative(in.Path)):
		return errors.New("Not a file: " + in.Path)
	}

	sum := sha256.New()
	content := io.TeeReader(io.LimitReader(archive, most), sum)
	n := min(h.Size, most)

	w.Header().Set("Content-Type", "application/json")

	if in.Encoding == "text" {
		text, err := io.ReadAll(content)
		if err != nil {
			return fault.Wrap(fault.KindOf(err), err, "read %s", in.Path)
		}

		quoted, err := json.Marshal(strings.ToValidUTF8(string(text), "\uFFFD"))
		if err != nil {
			return fault.Wrap(fault.Internal, err, "read %s", in.Path)
		}

		_, _ = io.WriteString(w, `{"success":true,"error":"","content":`)
		_, _ = w.Write(quoted)
	} else {
		_, _ = io.WriteString(w, `{"success":true,"error":"","content":"`)
		encode(w, content)
		_, _ = io.WriteString(w, `"`)
	}

	tail(w, map[string]any{
		"encoding": in.Encoding, "truncated": h.Size > most, "bytes": n, "file_size": h.Size, "path": relative(in.Path),
		"mime": mimeOf(in.Path), "sha256": sumOf(sum, in.IncludeSHA256),
	})

	return nil
}

// encode copies r as base64. A failure aborts the answer, so that no client takes a part for the whole.
func encode(w io.Writer, r io.Reader) int64 {
	out := base64.NewEncoder(base64.StdEncoding, w)

	n, err := io.Copy(out, r)
	if err == nil {
		err = out.Close()
	}

	if err != nil {
		panic(http.ErrAbortHandler)
	}

	return n
}

// tail writes the last members of an object that has begun, and its end.
func tail(w io.Writer, members map[string]any) {
	rest, err := json.Marshal(members)
	if err != nil {
		panic(http.ErrAbortHandler)
	}

	_, _ = w.Write(append([]byte(","), rest[1:]...))
}

func sumOf(h hash.Hash, asked bool) any {
	if !asked {
		return nil
	}

	return hex.EncodeToString(h.Sum(nil))
}

func relative(p string) string {
	if !path.IsAbs(p) {
		p = path.Join(rollout.Workdir, p)
	}

	return strings.TrimPrefix(strings.TrimPrefix(path.Clean(p), rollout.Workdir), "/")
}

// mimeOf returns the type for a suffix. Its table is fixed, because that of the operating system differs between hosts.
func mimeOf(p string) string {
	types := map[string]string{
		".png":  "image/png",
		".jpg":  "image/jpeg",
		".jpeg": "image/jpeg",
		".webp": "image/webp",
		".gif":  "image/gif",
		".txt":  "text/plain",
		".log":  "text/plain",
		".json": "application/json",
		".xml":  "application/xml",
		".html": "text/html",
		".md":   "text/markdown",
		".tgz":  "application/gzip",
	}

	return cmp.Or(types[strings.ToLower(path.Ext(p))], "application/octet-stream")
}
