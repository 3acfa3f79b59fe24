package client

import (
	"context"
	"maps"
	"net/http"
	"os"
	"slices"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// UploadAll uploads the files that the server does not have yet. files has paths by SHA-256 in hex.
func (c *Client) UploadAll(ctx context.Context, files map[string]string) error {
	for _, digest := range slices.Sorted(maps.Keys(files)) {
		if err := c.upload(ctx, digest, files[digest]); err != nil {
			return err
		}
	}

	return nil
}

func (c *Client) upload(ctx context.Context, digest, path string) error {
	_, err := c.do(ctx, http.MethodGet, "/uploads/"+digest, http.NoBody)
	if !fault.Is(err, fault.NotFound) {
		return err
	}

	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()

	_, err = c.do(ctx, http.MethodPut, "/uploads/"+digest, file)

	return err
}
