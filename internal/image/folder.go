package image

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// folderImage makes an image of one layer of the folder of a root file system. Other file systems mounted
// in it (proc, dev) are left out.
func folderImage(ctx context.Context, dir, arch string) (v1.Image, error) {
	// The layer is unpacked as it is. Its compressed form only has a digest.
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return tarOf(ctx, dir), nil },
		tarball.WithCompressionLevel(gzip.NoCompression),
	)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "image: read folder %s", dir)
	}

	config := &v1.ConfigFile{OS: "linux", Architecture: arch, RootFS: v1.RootFS{Type: "layers"}}

	base, err := mutate.ConfigFile(empty.Image, config)
	if err != nil {
		return nil, err
	}

	return mutate.AppendLayers(base, layer)
}

// tarOf streams the folder as a tar file. An error of the folder is the error of the reader.
func tarOf(ctx context.Context, dir string) io.ReadCloser {
	r, w := io.Pipe()
	// ends when the folder was read, or the reader is closed
	go func() {
		t := tar.NewWriter(w)

		err := writeTree(ctx, t, dir)
		if err == nil {
			err = t.Close()
		}

		_ = w.CloseWithError(err)
	}()

	return r
}

func writeTree(ctx context.Context, t *tar.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	top, err := root.Stat(".")
	if err != nil {
		return err
	}

	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}

		name, err := filepath.Rel(dir, path)
		if err != nil || name == "." {
			return err
		}

		info, err := e.Info()
		if err != nil {
			return err
		}

		if deviceOf(info) != deviceOf(top) {
			return skip(e)
		}

		return writeEntry(t, root, name, info)
	})
}

func skip(e fs.DirEntry) error {
	if e.IsDir() {
		return fs.SkipDir
	}

	return nil
}

func deviceOf(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Dev
	}

	return 0
}

// writeEntry writes a folder, a file or a link, and leaves out all other types.
func writeEntry(t *tar.Writer, root *os.Root, name string, info fs.FileInfo) error {
	link := ""

	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		var err error
		if link, err = root.Readlink(name); err != nil {
			return err
		}
	case !info.IsDir() && !info.Mode().IsRegular():
		return nil
	}

	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}

	h.Name, h.Uname, h.Gname = name, "", ""
	if err := t.WriteHeader(h); err != nil || !info.Mode().IsRegular() {
		return err
	}

	f, err := root.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()

	_, err = io.CopyN(t, f, h.Size)

	return err
}
