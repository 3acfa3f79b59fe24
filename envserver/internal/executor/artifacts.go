package executor

import (
	"archive/tar"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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

	// for read: text or base64
	Encoding      string `json:"encoding"`
	MaxBytes      *int64 `json:"max_bytes"`
	IncludeSHA256 bool   `json:"include_sha256"`
	Recursive     bool   `json:"recursive"`
	MaxEntries    *int   `json:"max_entries"`

	// for archive
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

// missing returns AgentEnv's error text for a path that does not exist, or is out of reach; it returns other
// errors unchanged.
func missing(p string, err error) error {
	switch fault.KindOf(err) {
	case fault.NotFound:
		return errors.New("Not found: " + p)
	case fault.Unauthorized:
		return errOutside
	default:
		return err
	}
}

//nolint:staticcheck // AgentEnv's words
var (
	errOutside = errors.New("Access denied: path outside workspace")
	errNoSlot  = errors.New("No active slot for trajectory (run a sandbox tool first)")
)

// artifact reads a request and finds its rollout. If ok is false, the request has been answered; failed is
// the answer of the route to one that failed.
func (a *API) artifact(
	w http.ResponseWriter,
	r *http.Request,
	failed func(error) any,
) (in artifactRequest, id string, ok bool) {
	in, ok = read[artifactRequest](a, w, r)
	if !ok {
		return in, "", false
	}

	if in.Path == "" {
		in.Path = "."
	}

	id, err := a.active(r.Context(), in.TrajectoryID)
	if err == nil && !inWorkspace(in.Path) {
		err = errOutside
	}

	if err != nil {
		httpio.WriteJSON(w, http.StatusOK, failed(err))
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
	in, id, ok := a.artifact(w, r, failedList)
	if !ok {
		return
	}

	limit := maxListed
	if in.MaxEntries != nil {
		limit = min(max(*in.MaxEntries, 1), maxListed)
	}

	ctx, cancel := a.Context(r)
	defer cancel()

	var (
		entries []episode.Entry
		more    bool
	)

	err := a.within(ctx, in.TrajectoryID, id, a.active, func(id string) (err error) {
		entries, more, err = a.Episodes.List(ctx, id, in.Path, in.Recursive, limit)
		return err
	})
	if err != nil {
		httpio.WriteJSON(w, http.StatusOK, failedList(missing(in.Path, err)))
		return
	}

	httpio.WriteJSON(w, http.StatusOK, listAnswer{Success: true, Entries: entries, Truncated: more})
}

// tar packs the path of the request.
func (a *API) tar(ctx context.Context, id string, in artifactRequest) (stream io.ReadCloser, err error) {
	err = a.within(ctx, in.TrajectoryID, id, a.active, func(id string) (err error) {
		stream, err = a.Episodes.Tar(ctx, id, in.Path)
		return err
	})

	return stream, err
}

// readPost streams a file.
func (a *API) readPost(w http.ResponseWriter, r *http.Request) {
	in, id, ok := a.artifact(w, r, failedRead)
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
		httpio.WriteJSON(w, http.StatusOK, failedRead(err))
	}
}

// read writes the answer. It returns an error only if nothing was written yet.
func (a *API) read(ctx context.Context, w http.ResponseWriter, id string, in artifactRequest, most int64) error {
	stream, err := a.tar(ctx, id, in)
	if err != nil {
		return missing(in.Path, err)
	}
	defer stream.Close()

	archive := tar.NewReader(stream)

	h, err := archive.Next()
	switch {
	case err != nil:
		return fault.Wrap(fault.KindOf(err), err, "read %s", in.Path)
	case h.Typeflag != tar.TypeReg:
		return errors.New("Not a file: " + in.Path)
	}

	sum := sha256.New()
	content := io.TeeReader(io.LimitReader(archive, most), sum)

	if in.Encoding == "text" {
		err = writeText(w, content)
	} else {
		beginAnswer(w)
		encode(w, content)
	}

	if err != nil {
		return fault.Wrap(fault.KindOf(err), err, "read %s", in.Path)
	}

	mime := mimeOf(h.Name)

	answer := readAnswer{
		Success:   true,
		Encoding:  in.Encoding,
		Truncated: h.Size > most,
		Bytes:     min(h.Size, most),
		FileSize:  &h.Size,
		Path:      h.Name,
		Mime:      &mime,
	}
	if in.IncludeSHA256 {
		digest := hex.EncodeToString(sum.Sum(nil))
		answer.SHA256 = &digest
	}

	endAnswer(w, answer)

	return nil
}

// writeText begins an answer with a text. It returns an error only if nothing was written yet.
func writeText(w http.ResponseWriter, content io.Reader) error {
	text, err := io.ReadAll(content)
	if err != nil {
		return err
	}

	quoted, err := json.Marshal(strings.ToValidUTF8(string(text), "\uFFFD"))
	if err != nil {
		return err
	}

	beginAnswer(w)
	_, _ = w.Write(quoted[1 : len(quoted)-1])

	return nil
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
