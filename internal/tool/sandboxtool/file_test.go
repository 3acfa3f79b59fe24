package sandboxtool_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/tool"
)

func TestFiles(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)

	type args = map[string]any

	write := b.call("write_file", args{"path": "a/b/f.txt", "content": "one\r\ntwo\nthree é"})
	require.Equal(t, "Successfully wrote 17 bytes to a/b/f.txt", write.Content)
	require.Equal(t, "one\r\ntwo\nthree é", b.call("read_file", args{"path": "/home/user/workdir/a/b/f.txt"}).Content)
	require.Equal(t, "two\n", b.call("read_file", args{"path": "a/b/f.txt", "offset": 2, "limit": 1}).Content)
	require.Equal(t, "three é", b.call("read_file", args{"path": "a/b/f.txt", "offset": 3}).Content)
	b.bash(
		"chmod 750 a/b/f.txt; ln -s f.txt a/b/link; mkfifo fifo; head -c 10 /dev/zero > bin; printf 'caf\\351' > latin; : > empty",
	)
	require.Equal(t, "Replaced 1 of 1 in a/b/link",
		b.call("edit_file", args{"path": "a/b/link", "old_string": "two\n", "new_string": "2\n"}).Content)
	require.Equal(t, "750 user user\n", b.bash("stat -c '%a %U %G' a/b/f.txt; readlink a/b/link > /dev/null")+"\n")
	require.Equal(t, "one\r\n2\nthree é", b.call("read_file", args{"path": "a/b/f.txt"}).Content)
	require.Equal(t, "caf\uFFFD", b.call("read_file", args{"path": "latin"}).Content)
	require.Empty(t, b.call("read_file", args{"path": "empty"}).Content)
	require.Equal(t, tool.Result{Data: json.RawMessage(`{"path":"/home/user/workdir/empty","size":0}`)}, b.call("read_file", args{
		"path":   "empty",
		"offset": 1,
		"limit":  10,
	}))
	require.Equal(t, "2\nthree é", b.call("read_file", args{
		"path":   "a/b/f.txt",
		"offset": json.Number("2.0"),
		"limit":  math.MaxInt,
	}).Content)
	b.bash("ln -s ../new a/next; ln -s next a/later")
	b.call("write_file", args{"path": "a/later", "content": "x"})
	require.Equal(t, "next ../new x", b.bash("echo $(readlink a/later a/next) $(cat new); rm a/later a/next new"))
	b.bash("printf 'a a a' > many")
	require.Equal(t, "Replaced 3 of 3 in many",
		b.call("edit_file", args{"path": "many", "old_string": "a", "new_string": "b", "replace_all": true}).Content)

	for _, c := range []struct {
		name    string
		args    args
		message string
	}{
		{"read_file", args{"path": "none"}, "File not found: none"},
		{"read_file", args{"path": "a"}, "Not a file: a is a directory"},
		{"read_file", args{"path": "fifo"}, "Not a file: fifo"},
		{"read_file", args{"path": "bin"}, "bin is a binary file of 10 bytes, which is not shown"},
		{"read_file", args{"path": "a/b/f.txt", "offset": 9}, "a/b/f.txt has 3 lines, and offset is 9"},
		{"read_file", args{"path": "/proc/1/environ"}, "File not found: /proc/1/environ"},
		{"read_file", args{}, `invalid arguments for read_file: required: missing properties: ["path"]`},
		{"write_file", args{"path": "/etc/x", "content": ""}, "/etc/x: read-only file system"},
		{"write_file", args{"path": "a", "content": ""}, "a: not a regular file"},
		{"write_file", args{"path": "/dev/null", "content": ""}, "/dev/null: not a regular file"},
		{"edit_file", args{
			"path":       "many",
			"old_string": "b",
			"new_string": "c",
		}, "old_string is 3 times in many: add lines around it until it is unique, or set replace_all"},
		{"edit_file", args{
			"path":       "many",
			"old_string": "x",
			"new_string": "c",
		}, "old_string is not in many: it must be the exact text, with its spaces and line ends"},
		{"read_file", args{"path": "empty", "offset": 2}, "empty has 0 lines, and offset is 2"},
		{"read_file", args{"path": nil}, `invalid arguments for read_file: validating /properties/path: type: null has type "null", want "string"`},
		{"list_files", args{"path": "none"}, "File not found: none"},
		{"list_files", args{"path": "fifo"}, "fifo: not a directory"},
	} {
		r := b.call(c.name, c.args)
		require.True(t, r.Error)
		require.Equal(t, c.message, r.Message)
	}

	require.Equal(t, "a/\nbin  10\nempty  0\nfifo\nlatin  4\nmany  5\n", b.call("list_files", args{}).Content)
	require.Equal(t, "b/\nb/f.txt  15\nb/link -> f.txt\n", b.call("list_files", args{
		"path":      "a",
		"recursive": true,
	}).Content)
}

// Long files and long lists are truncated, and the result states this.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)

	type args = map[string]any

	b.bash(
		"seq 1000000 > long; head -c 200000 /dev/zero | tr '\\0' x > line; mkdir many; (cd many; seq 1500 | xargs touch)",
	)
	long := b.call("read_file", args{"path": "long"})
	require.Less(t, len(long.Content), 101_000)
	require.True(t, strings.HasPrefix(long.Content, "1\n2\n"))
	require.Regexp(
		t,
		`\[\.\.\. left out: the rest of line \d+ and the lines up to 1000000; read them with offset and limit \.\.\.\]$`,
		long.Content,
	)
	require.Equal(t, "999999\n", b.call("read_file", args{"path": "long", "offset": 999999, "limit": 1}).Content)
	require.Less(t, len(b.call("read_file", args{"path": "line"}).Content), 101_000)
	list := b.call("list_files", args{"path": "many"}).Content
	require.Equal(t, 1001, strings.Count(list, "\n"))
	require.True(t, strings.HasSuffix(list, "[... the entries after the first 1000 are left out ...]\n"))

	big := strings.Repeat("line\n", 1_000_000)
	require.Equal(t, "Successfully wrote 5000000 bytes to big", b.call("write_file", args{
		"path":    "big",
		"content": big,
	}).Content)
	require.Equal(t, "1000000", b.bash("wc -l < big"))
}

func TestSearch(t *testing.T) {
	t.Parallel()
	b := newTestSandbox(t)

	type args = map[string]any

	b.bash("mkdir src; printf 'def f():\\n  return 1\\n' > src/a.py; echo 'Def x' > src/b.txt; echo def > .hidden")
	require.Equal(t, "src/a.py:1:def f():", b.call("search", args{"pattern": "def"}).Content)
	require.Equal(t, "src/b.txt:1:Def x", b.call("search", args{
		"pattern":     "DEF",
		"ignore_case": true,
		"path":        "src",
		"glob":        "*.txt",
	}).Content)
	require.Equal(t, "no matches", b.call("search", args{"pattern": "--version"}).Content)
	bad := b.call("search", args{"pattern": "("})
	require.True(t, bad.Error)
	require.Contains(t, bad.Message, "regex parse error")
	require.True(t, b.call("search", args{"pattern": "x", "path": "none"}).Error)
}
