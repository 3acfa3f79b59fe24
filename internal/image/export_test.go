package image

import (
	"context"
	"io"
	"os"
)

var LockOpened, ErrHeld = lockOpened, errHeld

// Unpack is exported for the fuzz test, which has a layer without an image.
func Unpack(ctx context.Context, r io.Reader, dir string, l Limits) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()

	_, err = unpack(ctx, r, root, owner{root: os.Geteuid() == 0}, &budget{Limits: l.withDefaults()})

	return err
}
