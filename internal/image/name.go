package image

import (
	"github.com/google/go-containerregistry/pkg/name"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// maxName bounds the name of an image, in bytes.
const maxName = 500

// ParseName returns the full form of an image's name, with registry and tag or digest: python:3.12-slim is
// index.docker.io/library/python:3.12-slim.
func ParseName(image string) (string, error) {
	ref, err := parse(image)
	if err != nil {
		return "", err
	}

	return ref.Name(), nil
}

func parse(image string, options ...name.Option) (name.Reference, error) {
	if image == "" || len(image) > maxName {
		return nil, fault.Field("image", "must be a name of 1 to %d bytes, got %d bytes", maxName, len(image))
	}

	ref, err := name.ParseReference(image, options...)
	if err != nil {
		return nil, fault.Field("image", "must be a name like python:3.12-slim or ghcr.io/owner/name@sha256:…: %v", err)
	}

	return ref, nil
}

// Registry returns the registry of an image's name: docker.io, ghcr.io, 127.0.0.1:5000.
func Registry(image string) (string, error) {
	ref, err := parse(image)
	if err != nil {
		return "", err
	}

	return registryOf(ref), nil
}

func registryOf(ref name.Reference) string {
	if r := ref.Context().RegistryStr(); r != name.DefaultRegistry {
		return r
	}

	return "docker.io"
}
