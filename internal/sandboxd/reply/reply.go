// Package reply writes the answers of sandboxd: JSON, or an error with its kind.
package reply

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// JSON answers with v.
func JSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// the client may be gone
	_ = json.NewEncoder(w).Encode(v)
}

// Result answers 204, or with err.
func Result(w http.ResponseWriter, err error) {
	if err != nil {
		Error(w, err)
		return
	}

	w.WriteHeader(http.StatusNoContent)
}

// Error answers with the kind and the text of err.
func Error(w http.ResponseWriter, err error) {
	kind := Kind(err)

	w.Header().Set("Content-Type", "application/json")
	w.Header().Del("Content-Length")
	w.WriteHeader(fault.EdgeOf(kind).HTTPStatus)
	_ = json.NewEncoder(w).Encode(wire.Error{Kind: string(kind), Message: err.Error()})
}

// Kind returns the kind of an error that may come from the operating system.
func Kind(err error) fault.Kind {
	var (
		known *fault.Error
		errno unix.Errno
	)
	switch {
	case errors.As(err, &known):
		return known.Kind
	case errors.Is(err, fs.ErrNotExist):
		return fault.NotFound
	case errors.As(err, &errno):
		return kindOfErrno(errno)
	default:
		return fault.Internal
	}
}

func kindOfErrno(errno unix.Errno) fault.Kind {
	switch errno {
	case unix.ENOSPC, unix.EDQUOT, unix.EFBIG:
		return fault.OutOfDisk
	case unix.ENOMEM:
		return fault.OutOfMemory
	case unix.EAGAIN, unix.EMFILE, unix.ENFILE:
		return fault.Exhausted
	case unix.ELOOP, unix.ENOTDIR, unix.EISDIR, unix.ENAMETOOLONG, unix.EACCES, unix.EPERM, unix.EROFS, unix.EEXIST,
		unix.ENOTEMPTY, unix.EINVAL, unix.EXDEV, unix.ENOEXEC, unix.E2BIG, unix.ENXIO, unix.ETXTBSY, unix.EBUSY:
		return fault.Invalid
	default:
		return fault.Internal
	}
}
