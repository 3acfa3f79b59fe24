package activities_test

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// exec describes a process in a fake sandbox: it ends at once, or runs until it is killed or reaches its time limit.
type exec struct {
	stdout, stderr string
	exit           int

	// the signal that ended it
	signal string
	hang   bool

	// it runs until the test ends it, and ignores its time limit
	busy bool

	// on the files; called with the sandbox locked
	effect func(b *fakeSandbox)
}

// fakeSandbox implements sandboxd's protocol in memory.
type fakeSandbox struct {
	id    string
	srv   *httptest.Server
	began time.Time
	run   func(b *fakeSandbox, name string, p wire.Process) exec

	// held by a request that changes the sandbox; locked before mu
	turn sync.Mutex
	mu   sync.Mutex

	// regular files by absolute path
	files map[string]string
	procs map[string]*wire.Status
	specs map[string]wire.Process
	logs  map[string]exec

	// names of processes in the order of their start
	order    []string
	renewals int
	killAlls int

	// the answer of listeners
	left wire.Listeners

	// its processes are stopped
	frozen bool
	// refuse makes a request fail with the error it returns; nil lets the request pass.
	refuse func(method, path string, q map[string][]string) error
}

func newFakeSandbox(id string, run func(b *fakeSandbox, name string, p wire.Process) exec) *fakeSandbox {
	b := &fakeSandbox{
		id:    id,
		began: time.Now(),
		run:   run,
		files: map[string]string{},
		procs: map[string]*wire.Status{},
		specs: map[string]wire.Process{},
		logs:  map[string]exec{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/info", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, wire.Info{
			SandboxID: id,
			StartedAt: b.began,
		})
	})
	mux.HandleFunc("POST /v1/lease", func(http.ResponseWriter, *http.Request) { b.renewals++ })
	mux.HandleFunc("PUT /v1/processes/{name}", b.start)
	mux.HandleFunc("GET /v1/processes/{name}", b.status)
	mux.HandleFunc("GET /v1/processes/{name}/log", b.log)
	mux.HandleFunc("POST /v1/processes/{name}/kill", b.kill)
	mux.HandleFunc("POST /v1/kill-all", b.killAll)
	mux.HandleFunc("POST /v1/freeze", func(http.ResponseWriter, *http.Request) { b.frozen = true })
	mux.HandleFunc("POST /v1/thaw", func(http.ResponseWriter, *http.Request) { b.frozen = false })
	mux.HandleFunc("GET /v1/listeners", func(w http.ResponseWriter, _ *http.Request) { reply(w, b.left) })
	mux.HandleFunc("PUT /v1/files", b.putFile)
	mux.HandleFunc("GET /v1/files", b.getFile)
	mux.HandleFunc("DELETE /v1/files", b.deleteFile)
	mux.HandleFunc("PUT /v1/tar", b.putTar)
	mux.HandleFunc("GET /v1/tar", b.getTar)
	b.srv = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if changes(r) {
			b.turn.Lock()
			defer b.turn.Unlock()
		}

		b.mu.Lock()
		defer b.mu.Unlock()

		if b.refuse != nil {
			if err := b.refuse(r.Method, r.URL.Path, r.URL.Query()); err != nil {
				fail(w, err)
				return
			}
		}

		mux.ServeHTTP(w, r)
	}))

	return b
}

// changes reports whether sandboxd makes other requests wait until this one ends.
func changes(r *http.Request) bool {
	return r.Method == http.MethodPut || r.Method == http.MethodDelete || r.URL.Path == "/v1/kill-all"
}

func reply(w http.ResponseWriter, v any) { _ = json.NewEncoder(w).Encode(v) }

func fail(w http.ResponseWriter, err error) {
	k := fault.KindOf(err)
	w.WriteHeader(fault.EdgeOf(k).HTTPStatus)
	reply(w, wire.Error{Kind: string(k), Message: err.Error()})
}

func (b *fakeSandbox) start(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if st, ok := b.procs[name]; ok {
		reply(w, st)
		return
	}

	var p wire.Process
	if err := json.NewDecoder(r.Body).Decode(&p); err != nil {
		fail(w, fault.New(fault.Invalid, "%v", err))
		return
	}

	b.order = append(b.order, name)

	e := b.run(b, name, p)
	if e.effect != nil {
		e.effect(b)
	}

	b.specs[name], b.logs[name] = p, e
	st := &wire.Status{
		Name:       name,
		Running:    e.hang || e.busy,
		PID:        1,
		ExitCode:   e.exit,
		Signal:     e.signal,
		StartedAt:  time.Now(),
		StdoutSize: int64(len(e.stdout)),
		StderrSize: int64(len(e.stderr)),
	}
	// its time limit is reached at once
	if e.hang && p.TimeoutMillis > 0 {
		st.Running, st.TimedOut, st.ExitCode = false, true, 137
	}

	if !st.Running {
		st.EndedAt = time.Now()
	}

	b.procs[name] = st
	reply(w, st)
}

func (b *fakeSandbox) status(w http.ResponseWriter, r *http.Request) {
	if st, ok := b.procs[r.PathValue("name")]; ok {
		reply(w, st)
		return
	}

	fail(w, fault.New(fault.NotFound, "no process %s", r.PathValue("name")))
}

func (b *fakeSandbox) log(w http.ResponseWriter, r *http.Request) {
	e, ok := b.logs[r.PathValue("name")]
	if !ok {
		fail(w, fault.New(fault.NotFound, "no process"))
		return
	}

	text := e.stdout
	if r.FormValue("stream") == "stderr" {
		text = e.stderr
	}

	offset, _ := strconv.Atoi(r.FormValue("offset"))

	w.Header().Set(wire.LogNextHeader, strconv.Itoa(len(text)))
	w.Header().Set(wire.LogEOFHeader, "true")
	_, _ = io.WriteString(w, text[min(offset, len(text)):])
}

func (b *fakeSandbox) kill(w http.ResponseWriter, r *http.Request) {
	b.end(r.PathValue("name"))
	b.status(w, r)
}

func (b *fakeSandbox) end(name string) {
	if st, ok := b.procs[name]; ok && st.Running {
		st.Running, st.ExitCode, st.Signal, st.EndedAt = false, 137, "killed", time.Now()
	}
}

func (b *fakeSandbox) killAll(http.ResponseWriter, *http.Request) {
	b.killAlls++
	for name := range b.procs {
		b.end(name)
	}
}

func (b *fakeSandbox) putFile(_ http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	b.files[r.FormValue("path")] = string(data)
}

func (b *fakeSandbox) getFile(w http.ResponseWriter, r *http.Request) {
	data, ok := b.files[r.FormValue("path")]
	if !ok {
		fail(w, fault.New(fault.NotFound, "no file %s", r.FormValue("path")))
		return
	}

	_, _ = io.WriteString(w, data)
}

func (b *fakeSandbox) deleteFile(_ http.ResponseWriter, r *http.Request) {
	p := r.FormValue("path")

	maps.DeleteFunc(b.files, func(name, _ string) bool { return name == p || strings.HasPrefix(name, p+"/") })
}

func (b *fakeSandbox) putTar(w http.ResponseWriter, r *http.Request) {
	data, _ := io.ReadAll(r.Body)
	for tr := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := tr.Next()
		if err == io.EOF {
			return
		}

		if err != nil {
			fail(w, fault.New(fault.Invalid, "%v", err))
			return
		}

		if h.Typeflag == tar.TypeReg {
			text, _ := io.ReadAll(tr)
			b.files[path.Join(r.FormValue("path"), h.Name)] = string(text)
		}
	}
}

func (b *fakeSandbox) getTar(w http.ResponseWriter, r *http.Request) {
	dir := r.FormValue("path")

	there := func(name string) bool { return strings.HasPrefix(name, dir+"/") }
	if dir != rollout.Home && !slices.ContainsFunc(slices.Collect(maps.Keys(b.files)), there) {
		fail(w, fault.New(fault.NotFound, "no folder %s", dir))
		return
	}

	_, _ = w.Write(tarOf(b.files, dir))
}

// tarOf packs the files below dir.
func tarOf(files map[string]string, dir string) []byte {
	var buf bytes.Buffer

	tw := tar.NewWriter(&buf)

	for _, name := range slices.Sorted(maps.Keys(files)) {
		if rel, ok := strings.CutPrefix(name, dir+"/"); ok {
			_ = tw.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg,
				Name:     rel,
				Size:     int64(len(files[name])),
				Mode:     0o644,
			})
			_, _ = io.WriteString(tw, files[name])
		}
	}

	_ = tw.Close()

	return buf.Bytes()
}

// locked calls f with the sandbox locked, between requests.
func (b *fakeSandbox) locked(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()

	f()
}

// write returns an exec that writes a file.
func write(name, text string) exec {
	return exec{effect: func(b *fakeSandbox) { b.files[name] = text }}
}

// rewards returns an exec of a verifier that writes the reward file.
func rewards(text string) exec { return write(wire.VerifierLogs+"/reward.txt", text) }
