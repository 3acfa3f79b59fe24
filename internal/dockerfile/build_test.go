package dockerfile_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/dockerfile"
	"github.com/rolloutd/rolloutd/internal/fault"
)

// Each instruction gives what it gives in a container engine.
func TestInstructions(t *testing.T) {
	t.Parallel()

	b := newBench(t)

	for name, c := range map[string]struct {
		files  map[string]string
		look   string
		expect string
	}{
		"shell form": {map[string]string{"Dockerfile": "FROM base:1\nRUN echo $((1+1)) > /two && id -u >> /two\n"}, "cat /two", "2\n0\n"},
		"exec form":  {map[string]string{"Dockerfile": "FROM base:1\nRUN [\"tee\", \"/$HOME\"]\n"}, "ls -d '/$HOME'", "/$HOME\n"},
		"continued":  {map[string]string{"Dockerfile": "FROM base:1\nRUN echo a \\\n  # note\n  b > /x\n"}, "cat /x", "a b\n"},
		"env and arg": {
			map[string]string{"Dockerfile": "ARG V=1\nFROM base:1\nARG V\nARG W=${V}2\nENV A=$W B=\"${A:-none} x\"\nRUN echo $A-$B-$W-$V > /e\n"},
			"cat /e; echo $A $W", "12-none x-12-1\n12\n",
		},
		"path of a base without one": {
			map[string]string{"Dockerfile": "FROM base:1\nENV PATH=/x:$PATH\nRUN echo $PATH > /p\n"},
			"cat /p", "/x:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n",
		},
		"arg from": {map[string]string{"Dockerfile": "ARG TAG=1\nFROM base:$TAG\nRUN echo $TAG. > /x\n"}, "cat /x", ".\n"},
		"workdir": {
			map[string]string{"Dockerfile": "FROM base:1\nENV D=c\nWORKDIR /a\nWORKDIR b/$D\nRUN pwd > here\n"}, "cat /a/b/c/here", "/a/b/c\n",
		},
		"workdir through a link": {map[string]string{"Dockerfile": "FROM base:1\nWORKDIR /data/new\nRUN pwd -P > x\n"}, "cat /srv/new/x; ls -ld /data | cut -c1", "/srv/new\nl\n"},
		"user": {
			map[string]string{"Dockerfile": "FROM base:1\nUSER app\nWORKDIR /w\nRUN id > /w/id; echo $HOME >> /w/id\nUSER 7:8\nRUN id -u > /tmp/n; id -g >> /tmp/n\n"},
			"cat /w/id /tmp/n; stat -c %U:%G /w", "uid=1500(app) gid=100(users) groups=100(users)\n/srv/app\n7\n8\napp:users\n",
		},
		"copy": {
			map[string]string{"Dockerfile": "FROM base:1\nWORKDIR /w\nCOPY a b/ ./\nCOPY a new/dir/\nCOPY --chown=app --chmod=0640 a /owned/x\nCOPY --chown=55 a /n\n", "a": "A", "b/c/d": "D", "b/e": "E"},
			"cat /w/a /w/c/d /w/e /w/new/dir/a; stat -c %U:%G:%a /owned /owned/x; stat -c %u:%g /n",
			"ADEAapp:users:755\napp:users:640\n55:55\n",
		},
		"copy to a link":   {map[string]string{"Dockerfile": "FROM base:1\nCOPY d /\nCOPY f /data/\n", "d/data/new": "1", "d/srv/x": "2", "f": "3"}, "cat /srv/new /srv/x /srv/f /srv/old; ls -ld /data | cut -c1", "123oldl\n"},
		"globs":            {map[string]string{"Dockerfile": "FROM base:1\nCOPY *.t? d*/x /g/\n", "a.tx": "1", "b.ty": "2", "c.z": "3", "d1/x": "4"}, "cat /g/*", "124"},
		"optional files":   {map[string]string{"Dockerfile": "FROM base:1\nCOPY f lock* hid*n /g/\nCOPY none* /n/\nCOPY --from=base:1 /srv/ol? /none* /s/\n", "f": "1", "hidden": "", ".dockerignore": "hidden"}, "ls /g /s; test -e /n || echo none", "/g:\nf\n\n/s:\nold\nnone\n"},
		"here-documents":   {map[string]string{"Dockerfile": "FROM base:1\nENV A=1\nCOPY <<E <<\"F\" /h/\nv=$A\nE\nv=$A\nF\nRUN <<E\necho one > /r\necho two >> /r\nE\nRUN <<E\n#!/usr/bin/awk BEGIN{print\"x\">\"/awk\"}\nE\n"}, "cat /h/E /h/F /r; ls -a / | grep rolloutd", "v=1\nv=$A\none\ntwo\n"},
		"piped document":   {map[string]string{"Dockerfile": "FROM base:1\nRUN cat <<E > /x && echo done >> /x\nhi\nE\n"}, "cat /x", "hi\ndone\n"},
		"stages":           {map[string]string{"Dockerfile": "FROM base:1 AS a\nRUN mkdir /out && echo 1 > /out/f && chown app /out/f && ln -s f /out/l\nFROM base:1 AS unused\nRUN false\nFROM a AS b\nRUN rm /srv/old\nFROM base:1\nCOPY --from=a /out /got\nCOPY --from=2 /srv /srv2\nCOPY --from=base:1 /srv/old /o\n"}, "cat /got/f /got/l /o; stat -c %U /got/f; ls /srv2", "1\n1\noldapp\ndata\n"},
		"stage without":    {map[string]string{"Dockerfile": "FROM base:1 AS a\nRUN echo s > /s\nFROM scratch\nCOPY --from=base:1 / /\nCOPY --from=a /s /s\n"}, "cat /s", "s\n"},
		"ignored":          {map[string]string{"Dockerfile": "FROM base:1\nCOPY . /c\n", ".dockerignore": "*.log\nsub\n!sub/keep\nDockerfile\n.docker*\n", "a": "", "x.log": "", "sub/drop": "", "sub/keep": ""}, "cd /c; find . | sort", ".\n./a\n./sub\n./sub/keep\n"},
		"shell":            {map[string]string{"Dockerfile": "FROM base:1\nSHELL [\"/bin/bash\", \"-euc\"]\nRUN echo $BASH > /x\n"}, "cat /x", "/bin/bash\n"},
		"described only":   {map[string]string{"Dockerfile": "FROM base:1\nLABEL a=b\nEXPOSE 80\nVOLUME /v\nSTOPSIGNAL INT\nHEALTHCHECK CMD true\nMAINTAINER me\nENTRYPOINT [\"x\"]\nCMD y\nRUN echo 1 > /x\n"}, "cat /x", "1\n"},
		"removed":          {map[string]string{"Dockerfile": "FROM base:1\nRUN rm -r /srv/data && mkdir /srv/data && echo 2 > /srv/data/two && rm /srv/old\nRUN ls /srv /srv/data > /x\n"}, "cat /x; ls /srv", "/srv:\ndata\n\n/srv/data:\ntwo\ndata\n"},
		"hard links":       {map[string]string{"Dockerfile": "FROM base:1\nRUN echo 1 > /a && ln /a /b\n"}, "stat -c %h /a /b", "2\n2\n"},
		"kept in tmp":      {map[string]string{"Dockerfile": "FROM base:1\nCOPY f /tmp/\nRUN cat /tmp/f > /tmp/g\nRUN cat /tmp/g > /x\n", "f": "1"}, "cat /x /tmp/g; stat -c %a /tmp", "111777\n"},
		"mounts":           {map[string]string{"Dockerfile": "FROM base:1\nRUN --mount=type=bind,target=/m,source=d --mount=type=cache,target=/cache --mount=type=tmpfs,target=/t cat /m/f > /x; touch /cache/a /t/b\n", "d/f": "1"}, "cat /x; ls -A /cache /t; test -e /m || echo none", "1/cache:\n\n/t:\nnone\n"},
		"written mounts":   {map[string]string{"Dockerfile": "FROM base:1\nWORKDIR /w\nRUN --mount=type=bind,target=/data/m,source=d,rw --mount=type=bind,source=d/f,target=one cd /data/m && rm f && touch new && echo 1 > /w/kept\n", "d/f": "1"}, "ls /w; test -e /srv/m || echo none", "kept\nnone\n"},
		"variables of run": {map[string]string{"Dockerfile": "FROM base:1\nRUN printenv HOME > /x; hostname 2>/dev/null; cat /etc/hosts | head -1 >> /x\n"}, "cat /x", "/root\n127.0.0.1 localhost sandbox\n"},
		"escape":           {map[string]string{"Dockerfile": "# escape=`\nFROM base:1\nRUN echo a`\n b > /x\n"}, "cat /x", "a b\n"},
	} {
		t.Run(name, func(t *testing.T) {
			one := newBench(t)
			one.store, one.builder = b.store, b.builder

			_, err := one.build(one.folder(c.files))
			require.NoError(t, err, "%s", one.out.String())
			require.Equal(t, c.expect, one.sh(c.look))
		})
	}
}

// ADD unpacks a tar file: over links to folders of the image, also one that leads nowhere yet, and with its own owners.
func TestUnpackedTar(t *testing.T) {
	t.Parallel()

	b := newBench(t)
	folder := b.folder(map[string]string{
		"Dockerfile": "FROM base:1\nRUN ln -s /new /dangling\nADD t.tar.gz /\nADD --chown=app t.tar.gz /own/\nADD plain /p/\n", "plain": "no tar",
	})

	var packed bytes.Buffer

	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)

	for _, h := range []tar.Header{
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o700},
		{Name: "data/", Typeflag: tar.TypeDir, Mode: 0o700, Uid: 7},
		{Name: "data/f", Typeflag: tar.TypeReg, Mode: 0o640, Uid: 7, Gid: 8, Size: 1},
		{Name: "dangling/", Typeflag: tar.TypeDir, Mode: 0o750, Uid: 7},
		{Name: "dangling/g", Typeflag: tar.TypeReg, Mode: 0o600, Size: 1},
		{Name: "some/soft", Typeflag: tar.TypeSymlink, Linkname: "../data/f"},
		{Name: "some/hard", Typeflag: tar.TypeLink, Linkname: "data/f"},
		{Name: "fifo", Typeflag: tar.TypeFifo},
	} {
		require.NoError(t, w.WriteHeader(&h))
		_, err := w.Write(make([]byte, h.Size))
		require.NoError(t, err)
	}

	require.NoError(t, errors.Join(w.Close(), z.Close()))
	require.NoError(t, os.WriteFile(filepath.Join(folder, "t.tar.gz"), packed.Bytes(), 0o600))

	_, err := b.build(folder)
	require.NoError(t, err, "%s", b.out.String())
	require.Equal(t, "/srv 0:755\n/srv/f 7:640\n/new 7:750\n/new/g 0:600\n/some/soft 0:777\n", b.sh("stat -c '%n %u:%a' /srv /srv/f /new /new/g /some/soft"))
	require.Equal(t, "/srv\n/new\n../data/f\n", b.sh("readlink /data /dangling /some/soft"))
	require.Equal(t, "1500:100\n1500:100\n", b.sh("stat -c %u:%g /own/data /own/some/hard; test -e /fifo && echo fifo"))
	require.Equal(t, "2\n2\n", b.sh("stat -c %h /srv/f /own/some/hard"))
	require.Equal(t, "no tar", b.sh("cat /p/plain"))
}

// An image has the program that its Dockerfile names, for services.
func TestProgramOfAnImage(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	for name, c := range map[string]struct {
		dockerfile      string
		entrypoint, cmd []string
	}{
		"none":           {"FROM base:1\n", nil, nil},
		"shell form":     {"FROM base:1\nCMD a $B\n", nil, []string{"/bin/sh", "-c", "a $B"}},
		"exec form":      {"FROM base:1\nENTRYPOINT [\"e\", \"1\"]\nCMD [\"c\"]\n", []string{"e", "1"}, []string{"c"}},
		"own command":    {"FROM base:1\nCMD [\"c\"]\nENTRYPOINT [\"e\"]\n", []string{"e"}, []string{"c"}},
		"of another":     {"FROM base:1 AS a\nCMD [\"c\"]\nFROM a\nUSER app\n", nil, []string{"c"}},
		"belongs to its": {"FROM base:1 AS a\nCMD [\"c\"]\nFROM a\nENTRYPOINT [\"e\"]\n", []string{"e"}, nil},
	} {
		i, err := b.build(b.folder(map[string]string{"Dockerfile": c.dockerfile}))
		require.NoError(t, err, name)
		require.Equal(t, c.entrypoint, i.Entrypoint, name)
		require.Equal(t, c.cmd, i.Cmd, name)
	}
}

// A build without changes runs nothing again; a changed file runs what comes after it.
func TestUnchangedStepsAreKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	folder := b.folder(map[string]string{
		"Dockerfile": "FROM base:1 AS a\nRUN cat /proc/sys/kernel/random/uuid > /one\nFROM base:1\nCOPY --from=a /one /one\nCOPY f /f\nRUN cat /proc/sys/kernel/random/uuid > /two\n",
		"f":          "1",
	})

	first, err := b.build(folder)
	require.NoError(t, err)

	one, two := b.sh("cat /one"), b.sh("cat /two")

	require.NoError(t, os.Chtimes(filepath.Join(folder, "f"), time.Unix(1, 0), time.Unix(1, 0)))

	again, err := b.build(folder)
	require.NoError(t, err)
	require.Equal(t, first.ID, again.ID)

	require.NoError(t, os.WriteFile(filepath.Join(folder, "f"), []byte("2"), 0o600))

	_, err = b.build(folder)
	require.NoError(t, err)
	require.Equal(t, one, b.sh("cat /one"))
	require.NotEqual(t, two, b.sh("cat /two"))
}

// A command that had other hosts runs again: without them it may have left something else.
func TestStepsOfOtherHostsAreNotKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	folder := b.folder(map[string]string{
		"Dockerfile": "FROM base:1\nRUN cat /proc/sys/kernel/random/uuid > /one\nRUN --network=none cat /proc/sys/kernel/random/uuid > /two\n",
	})

	build := func(hosts ...string) (one string) {
		b.builder.Network = nil
		if len(hosts) > 0 {
			b.builder.Network = &dockerfile.Network{Hosts: hosts, Serve: func(net.Listener) {}}
		}

		_, err := b.build(folder)
		require.NoError(t, err)

		return b.sh("cat /one")
	}

	none, one, two := build(), build("a.org"), build("a.org", "b.org")
	require.NotEqual(t, none, one)
	require.NotEqual(t, one, two)
	require.Equal(t, two, build("a.org", "b.org"))
	require.Equal(t, none, build())
}

// A command that fails is named with its line, its status and the end of its output.
func TestFailedCommand(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	_, err := b.build(b.folder(map[string]string{"Dockerfile": "FROM base:1\n\nRUN echo to-stdout; echo to-stderr >&2; exit 7\n"}))
	require.Equal(t, fault.Invalid, fault.KindOf(err))

	for _, part := range []string{"Dockerfile:3", "exit status 7", "to-stdout\nto-stderr"} {
		require.ErrorContains(t, err, part)
	}

	_, err = b.store.Find("built:1")
	require.Equal(t, fault.NotFound, fault.KindOf(err))
}

// A command that hangs, or leaves processes, ends with the deadline of the build, or with the command.
func TestDeadline(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	folder := b.folder(map[string]string{"Dockerfile": "FROM base:1\nRUN echo begun; sleep 1000 & sleep 1000\n"})
	_, err := b.builder.Build(t.Context(), dockerfile.Job{
		Folder: folder, Name: "built:1", Output: &b.out, Timeout: 2 * time.Second,
	})
	require.Equal(t, fault.Timeout, fault.KindOf(err), "%v", err)
	require.ErrorContains(t, err, "took longer than 2s")

	_, err = b.build(b.folder(map[string]string{"Dockerfile": "FROM base:1\nRUN (sleep 1000 &) ; echo ok > /x\n"}))
	require.NoError(t, err)
	require.Equal(t, "ok\n", b.sh("cat /x"))
}

// Memory, processes and disk of a command are bounded, and it reaches no network and no file of the host.
func TestCommandIsEnclosed(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	for name, command := range map[string]string{
		"disk":      "dd if=/dev/zero of=/big bs=1M count=400",
		"processes": "sh -c 'for i in $(seq 200); do sleep 20 & done'",
		"memory":    "awk 'BEGIN{s = \"x\"; while (1) s = s s}'",
		"devices":   "! ls /dev/sda /dev/mem /dev/kmsg 2>/dev/null && cat /dev/kmsg",
		"settings":  "echo 1 > /proc/sys/vm/overcommit_memory",
		"mounts":    "mount -t tmpfs x /srv",
		"network":   "exec 3<>/dev/tcp/127.0.0.1/22",
	} {
		_, err := b.build(b.folder(map[string]string{"Dockerfile": "FROM base:1\nSHELL [\"/bin/bash\", \"-c\"]\nRUN " + command + "\n"}))
		require.Error(t, err, name)
	}
}

// What is not supported is refused by line and name before anything runs.
func TestRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)

	for text, want := range map[string]string{
		"":                           "no instructions",
		"RUN x":                      "no build stage",
		"FROM base:1\nNONSENSE x":    "unknown instruction",
		"FROM base:1\nONBUILD RUN x": "Dockerfile:2: ONBUILD is not supported",
		"FROM base:1\nRUN --mount=type=secret,id=x true": "Dockerfile:2: RUN --mount=type=secret is not supported",
		"FROM base:1\nRUN --mount=type=ssh true":         "Dockerfile:2: RUN --mount=type=ssh is not supported",
		"FROM base:1\nRUN --network=host true":           "RUN --network=host",
		"FROM base:1\nRUN --security=insecure true":      "RUN --security=insecure",
		"FROM base:1\nADD https://host.test/x /x":        "Dockerfile:2: ADD of",
		"FROM base:1\nADD git@host.test:x.git /x":        "ADD of",
		"FROM none:1":                                             "none:1",
		"FROM --platform=linux/s390x base:1":                      "this machine is",
		"FROM $X":                                                 "names no image",
		"FROM base:1\nCOPY ../f /":                                "Dockerfile:2: \"../f\" leads out",
		"FROM base:1\nCOPY none /":                                "Dockerfile:2: \"none\" does not exist",
		"FROM base:1\nCOPY escape /x":                             "\"escape\" cannot be copied",
		"FROM base:1\nCOPY absolute /x":                           "\"absolute\" cannot be copied",
		"FROM base:1\nCOPY fifo /x":                               "must be a file",
		"FROM base:1\nCOPY d /x":                                  "must be a file",
		"FROM base:1\nCOPY huge /x":                               "must copy at most",
		"FROM base:1\nCOPY hidden /x":                             "excluded by .dockerignore",
		"FROM base:1\nCOPY f f2 /x":                               "must be a folder",
		"FROM base:1\nCOPY f /srv/old/":                           "no folder",
		"FROM base:1\nCOPY d2 /srv/old":                           "no folder",
		"FROM base:1\nCOPY --from=1 f /x":                         "must be a stage before",
		"FROM base:1\nCOPY --from=base:1 /nowhere /x":             "does not exist",
		"FROM base:1\nCOPY --chown=nobody f /x":                   "not in /etc/passwd",
		"FROM base:1\nUSER nobody\nRUN true":                      "Dockerfile:3",
		"FROM base:1\nRUN [\"none\"]":                             "no program",
		"FROM base:1\nRUN --mount=type=cache,target=/data/x true": "name the folder itself",
	} {
		folder := b.folder(map[string]string{"Dockerfile": text, "f": "1", "f2": "2", "d2/x": "", ".dockerignore": "hidden", "hidden": ""})
		require.NoError(t, os.Symlink("../../etc/passwd", filepath.Join(folder, "escape")))
		require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(folder, "absolute")))
		require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "fifo"), 0o600))
		require.NoError(t, os.Mkdir(filepath.Join(folder, "d"), 0o755))
		require.NoError(t, syscall.Mkfifo(filepath.Join(folder, "d/fifo"), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(folder, "huge"), nil, 0o600))
		require.NoError(t, os.Truncate(filepath.Join(folder, "huge"), 1<<40))

		_, err := b.build(folder)
		require.ErrorContains(t, err, want, text)
		require.NotEqual(t, fault.Internal, fault.KindOf(err), "%v", err)
	}
}
