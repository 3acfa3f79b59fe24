package sandboxd

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// defaultRead bounds the file that a request returns when it does not say.
const defaultRead = 64 << 20

// tempPrefix names what is half written or half removed.
const tempPrefix = ".rolloutd-"

func (s *Server) putFile(w http.ResponseWriter, r *http.Request) {
	mode, err := fileMode(r.FormValue("mode"))
	if err == nil {
		err = s.writeFile(r.FormValue("path"), mode, r.Body)
	}
	writeResult(w, err)
}

func fileMode(q string) (uint32, error) {
	if q == "" {
		return 0o644, nil
	}
	mode, err := strconv.ParseUint(q, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fault.Field("mode", "%q is not a mode such as 0644", q)
	}
	return uint32(mode), nil
}

// writeFile writes beside the file and renames: a reader inside never sees half of it, and neither a link nor another name of
// the old file is written through.
func (s *Server) writeFile(path string, mode uint32, data io.Reader) error {
	d, name, err := s.places.parent(path, true)
	if err != nil {
		return fault.Wrap(kindOf(err), err, "write %q", path)
	}
	defer d.close()
	temp := tempPrefix + rand.Text()
	err = d.create(temp, mode, data, copyAll)
	if err == nil {
		err = unix.Renameat(d.fd, temp, d.fd, name)
	}
	if err != nil {
		_ = unix.Unlinkat(d.fd, temp, 0)
		return fault.Wrap(kindOf(err), err, "write %q", path)
	}
	return nil
}

// create makes a new file and fills it by write.
func (d *dir) create(name string, mode uint32, data io.Reader, write func(*os.File, io.Reader) error) error {
	f, err := d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(write(f, data), f.Chmod(fs.FileMode(mode&0o777)), f.Close())
}

func copyAll(f *os.File, data io.Reader) error {
	_, err := io.Copy(onlyWriter{f}, data)
	return err
}

// copySparse leaves holes where data holds long runs of zeros: what took no disk when it was packed takes none again.
func copySparse(f *os.File, data io.Reader) error {
	block, zero := make([]byte, 64<<10), make([]byte, 64<<10)
	var size int64
	for {
		n, err := io.ReadFull(data, block)
		if n > 0 && !bytes.Equal(block[:n], zero[:n]) {
			if _, err := f.WriteAt(block[:n], size); err != nil {
				return err
			}
		}
		size += int64(n)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) && n > 0 {
			break
		}
		if err != nil {
			return err
		}
	}
	return f.Truncate(size)
}

func (s *Server) getFile(w http.ResponseWriter, r *http.Request) {
	path, limit := r.FormValue("path"), int64(defaultRead)
	if q := r.FormValue("limit"); q != "" {
		n, err := strconv.ParseInt(q, 10, 64)
		if err != nil || n < 0 {
			writeError(w, fault.Field("limit", "%q is not a number of bytes", q))
			return
		}
		limit = n
	}
	f, err := s.openRegular(path, limit)
	if err != nil {
		writeError(w, fault.Wrap(kindOf(err), err, "read %q", path))
		return
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	// One byte more than allowed tells the client that the file has grown past the limit since it was measured.
	if _, err := io.Copy(w, io.LimitReader(f, limit+1)); err != nil {
		panic(http.ErrAbortHandler) // so that the client does not take a part for the whole
	}
}

func (s *Server) openRegular(path string, limit int64) (*os.File, error) {
	f, err := s.openFile(path)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	switch {
	case err != nil:
	case !st.Mode().IsRegular():
		err = fault.New(fault.Invalid, "not a regular file but %s", st.Mode().Type())
	case st.Size() > limit:
		err = fault.New(fault.Invalid, "%d bytes, over the limit of %d", st.Size(), limit)
	default:
		return f, nil
	}
	_ = f.Close()
	return nil, err
}

func (s *Server) openFile(path string) (*os.File, error) {
	base, rest, err := s.places.split(path)
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return os.OpenFile(base, os.O_RDONLY|unix.O_NONBLOCK, 0)
	}
	d, name, err := s.places.parent(path, false)
	if err != nil {
		return nil, err
	}
	defer d.close()
	return d.open(name, unix.O_RDONLY, 0)
}

func (s *Server) deleteFile(w http.ResponseWriter, r *http.Request) {
	path := r.FormValue("path")
	d, name, err := s.places.parent(path, false)
	if err == nil {
		err = removeTree(d, name)
		d.close()
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	writeResult(w, fault.Wrap(kindOf(err), err, "remove %q", path))
}
