package sandboxtest

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/fault"
)

func tarTests() map[string]func(*testing.T, Harness) {
	return map[string]func(*testing.T, Harness){
		"Costly":       tarCostly,
		"SparseAgain":  tarSparseAgain,
		"PutCostly":    putTarCostly,
		"RoundTrip":    tarRoundTrip,
		"OneFile":      tarOneFile,
		"OddFiles":     tarOddFiles,
		"Sparse":       tarSparse,
		"Moving":       tarMoving,
		"TooDeep":      tarTooDeep,
		"Missing":      tarMissing,
		"PutRefuses":   putTarRefuses,
		"PutHarmless":  putTarHarmless,
		"PutOver":      putTarOver,
		"PutOutOfDisk": putTarOutOfDisk,
	}
}

const describe = `cd "$1"; find . -mindepth 1 -printf '%y %m %P -> %l %n %T@\n' | sort; find . -type f -perm -400 | sort | xargs sha256sum`

// What is restored elsewhere is what was collected: modes, times, links, and files that their owner may not read.
func tarRoundTrip(t *testing.T, h Harness) {
	p := h.place(t)
	setup := p.Bash(`mkdir -p /home/user/src; cd /home/user/src; mkdir -p deep/er empty ro
		head -c 100000 /dev/urandom > deep/er/data; echo '#!/bin/sh' > run; chmod 755 run; echo s > ro/secret; chmod 000 ro/secret; chmod 555 ro
		mkdir -p closed/in; chmod 000 closed/in closed
		ln -s run rel; ln -s /usr/bin/env abs; ln -s ../../nowhere dangling; ln deep/er/data second
		: > $'odd\nname'; : > 'blank name'; : > "$(printf 'n%.0s' $(seq 200))"
		touch -d '2001-02-03 04:05:06.789' run deep`)
	require.Zero(t, setup.ExitCode, setup.Stderr)
	r, err := p.GetTar(t.Context(), "/home/user/src")
	require.NoError(t, err)
	archive, err := io.ReadAll(r)
	require.NoError(t, err)
	require.NoError(t, r.Close())

	other := h.place(t)
	require.NoError(t, other.PutTar(t.Context(), "/home/user/copy/of", bytes.NewReader(archive)))

	want := p.Bash("set -- /home/user/src; " + describe).Stdout
	got := other.Bash("set -- /home/user/copy/of; " + describe).Stdout
	require.Equal(t, want, got)
	require.Equal(t, "s\n", other.Bash("cd /home/user/copy/of/ro; chmod 400 secret; cat secret").Stdout)
}

func tarOneFile(t *testing.T, h Harness) {
	p := h.place(t)
	require.NoError(t, p.WriteFile(t.Context(), "/home/user/one", newText("1"), 0o600))
	require.Equal(t, map[string]string{"one": "1"}, p.collect("/home/user/one"))
}

// collect reads a tar of path: names of files with their contents.
func (p *Place) collect(path string) map[string]string {
	p.t.Helper()
	r, err := p.GetTar(p.t.Context(), path)
	require.NoError(p.t, err)

	defer r.Close()

	files := map[string]string{}

	for tr := tar.NewReader(r); ; {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return files
		}

		require.NoError(p.t, err)
		data, err := io.ReadAll(tr)
		require.NoError(p.t, err)

		if h.Typeflag != tar.TypeDir {
			files[h.Name] = string(data) + h.Linkname
		}
	}
}

// Sockets, FIFOs and devices are left out, a locked folder is not, and links stay links.
func tarOddFiles(t *testing.T, h Harness) {
	p := h.place(t)
	setup := p.Bash(
		`mkdir /home/user/d; cd /home/user/d; mkfifo fifo; ln -s /etc/passwd link; mkdir locked; echo x > locked/f; chmod 000 locked`,
	)
	require.Zero(t, setup.ExitCode, setup.Stderr)
	require.Equal(t, map[string]string{"link": "/etc/passwd", "locked/f": "x\n"}, p.collect("/home/user/d"))
	require.Equal(t, "0\n", p.Bash("stat -c %a /home/user/d/locked").Stdout, "as it was")
}

// A sparse file that claims far more than it holds is refused, not streamed.
func tarSparse(t *testing.T, h Harness) {
	p := h.place(t)
	setup := p.Bash(
		`mkdir /home/user/d; cd /home/user/d; for i in $(seq 80); do truncate -s 60M sparse$i || exit 1; done`,
	)
	require.Zero(t, setup.ExitCode, setup.Stderr)
	_, err := p.GetTar(t.Context(), "/home/user/d")
	require.Equal(t, fault.OutOfDisk, fault.KindOf(err), "%v", err)
}

// A tree that changes while it is read still makes a whole tar.
func tarMoving(t *testing.T, h Harness) {
	p := h.place(t)
	p.StartBash("mover", `mkdir -p /home/user/d; cd /home/user/d; echo kept > kept; echo up
		while :; do head -c $((RANDOM*8)) /dev/zero > a; mv a b; : > b; rm -rf c; mkdir c; echo x > c/d; rm b; done`)
	p.Says("mover", "up\n")

	for range 30 {
		require.Equal(t, "kept\n", p.collect("/home/user/d")["kept"])
	}
}

func tarTooDeep(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(t, p.Bash(`mkdir -p /home/user/$(printf 'd/%.0s' $(seq 400))`).ExitCode)
	_, err := p.GetTar(t.Context(), "/home/user")
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
}

func tarMissing(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(t, p.Bash("ln -s /tmp /home/user/link").ExitCode)

	for path, want := range map[string]fault.Kind{
		"/home/user/missing": fault.NotFound,
		"/home/user/link":    fault.Invalid,
		"/home/user/link/x":  fault.Invalid,
		"":                   fault.Invalid,
	} {
		_, err := p.GetTar(t.Context(), path)
		require.Equal(t, want, fault.KindOf(err), "%q: %v", path, err)
	}
}

// archive makes a tar; a header without a type is a file that holds its own name.
func archive(t *testing.T, entries ...tar.Header) io.Reader {
	t.Helper()

	var b bytes.Buffer

	w := tar.NewWriter(&b)

	for _, h := range entries {
		if h.Mode == 0 {
			h.Mode = 0o644
		}

		data := ""
		if h.Typeflag == 0 {
			h.Typeflag, data = tar.TypeReg, "evil"
			h.Size = int64(len(data))
		}

		require.NoError(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, data)
		require.NoError(t, err)
	}

	require.NoError(t, w.Close())

	return &b
}

// Nothing lands outside of the folder, whatever the archive and whatever was there before.
func putTarRefuses(t *testing.T, h Harness) {
	link := func(name, to string) tar.Header {
		return tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: to}
	}
	hard := func(name, to string) tar.Header { return tar.Header{Typeflag: tar.TypeLink, Name: name, Linkname: to} }
	p := h.place(t)
	require.Zero(
		t,
		p.Bash(
			"mkdir -p /home/user/in /home/user/out; echo good > /home/user/out/f; ln -s ../out /home/user/in/planted",
		).ExitCode,
	)

	for name, entries := range map[string][]tar.Header{
		"dot dot":            {{Name: "../out/x"}},
		"dot dot inside":     {{Name: "a/../../out/x"}},
		"absolute":           {{Name: "/home/user/out/x"}},
		"through a link":     {link("l", "../out"), {Name: "l/x"}},
		"through an abs one": {link("l", "/home/user/out"), {Name: "l/x"}},
		"through two links":  {link("a", "."), link("a2", ".."), {Name: "a2/out/x"}},
		"through a planted":  {{Name: "planted/x"}},
		"hard link out":      {hard("h", "../out/f"), {Name: "h"}},
		"hard link absolute": {hard("h", "/home/user/out/f")},
		"hard through link":  {link("l", "../out"), hard("h", "l/f")},
		"name of the folder": {{Name: "."}},
	} {
		err := p.PutTar(t.Context(), "/home/user/in", archive(t, entries...))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
		require.Equal(t, "f\ngood\n", p.Bash("ls -A /home/user/out; cat /home/user/out/f").Stdout, name)
	}

	for name, body := range map[string]string{
		"not a tar": "no tar at all, but long enough to be read as a header" + longName() + longName(),
		"cut off":   "x",
	} {
		err := p.PutTar(t.Context(), "/home/user/in", newText(body))
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
	}

	err := p.PutTar(t.Context(), "/home/user/in/planted", archive(t, tar.Header{Name: "x"}))
	require.Equal(t, fault.Invalid, fault.KindOf(err), "%v", err)
}

// Devices are dropped, set-id bits masked, links kept as they are.
func putTarHarmless(t *testing.T, h Harness) {
	p := h.place(t)
	require.NoError(t, p.PutTar(t.Context(), "/home/user/in", archive(t,
		tar.Header{Typeflag: tar.TypeChar, Name: "device", Devmajor: 1, Devminor: 1},
		tar.Header{Typeflag: tar.TypeFifo, Name: "fifo"},
		tar.Header{Name: "setuid", Mode: 0o6755, Uid: 0, Gid: 0, ModTime: time.Unix(1e9, 0)},
		tar.Header{Typeflag: tar.TypeDir, Name: "sticky/", Mode: 0o3777},
		tar.Header{Typeflag: tar.TypeSymlink, Name: "python", Linkname: "/usr/bin/python3"},
	)))
	require.Equal(
		t,
		"python -> /usr/bin/python3\nsetuid 755 "+h.owner()+" 1000000000\nsticky 777\n",
		p.Bash(
			`cd /home/user/in; find . -type l -printf '%P -> %l\n'; find . -type f -printf '%P %m %u '; stat -c %Y setuid; find sticky -printf '%p %m\n'; find . -type p -o -type c -o -type b`,
		).Stdout,
	)
}

// An archive over what is there replaces files and keeps folders, without writing through links to either.
func putTarOver(t *testing.T, h Harness) {
	p := h.place(t)
	require.Zero(
		t,
		p.Bash(
			`cd /home/user; mkdir -p in/dir out; echo keep > in/dir/old; echo good > out/f; ln -s ../out/f in/file; ln out/f in/hard
		ln -s ../out in/folder; chmod 555 in/dir`,
		).ExitCode,
	)
	require.NoError(t, p.PutTar(t.Context(), "/home/user/in", archive(t,
		tar.Header{Typeflag: tar.TypeDir, Name: "dir", Mode: 0o750},
		tar.Header{Name: "dir/new"}, tar.Header{Name: "file"}, tar.Header{Name: "hard"},
		tar.Header{Typeflag: tar.TypeDir, Name: "folder", Mode: 0o755}, tar.Header{Name: "folder/f"},
	)))
	require.Equal(t, "keep\nevil good\nevil evil evil 750\n", p.Bash(
		`cd /home/user; cat in/dir/old in/dir/new; echo -n ' '; cat out/f; cat in/file; echo -n ' '; cat in/hard; echo -n ' '; cat in/folder/f; echo -n ' '; stat -c %a in/dir`,
	).Stdout)
}

func putTarOutOfDisk(t *testing.T, h Harness) {
	p := h.place(t)

	for size, name := range map[int64]string{
		100 << 20: "more than the disk",
		1 << 40:   "more than any archive may hold",
	} {
		r, w := io.Pipe()
		go func() {
			tw := tar.NewWriter(w)
			_ = tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "big", Mode: 0o644, Size: size})
			_, err := io.CopyN(tw, zeros{}, min(size, 100<<20))
			_ = w.CloseWithError(err)
		}()

		err := p.PutTar(t.Context(), "/home/user/in", r)
		require.Equal(t, fault.OutOfDisk, fault.KindOf(err), "%s: %v", name, err)

		_ = r.Close()

		require.NoError(t, p.Remove(t.Context(), "/home/user/in"))
	}
}
