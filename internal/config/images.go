package config

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/rolloutd/rolloutd/internal/image"
)

// Images are the OCI images of the local driver.
type Images struct {
	// folder of the unpacked layers; empty: images in Data
	Dir string `yaml:"dir"`

	// bound of all layers; 0: none
	MaxGiB int `yaml:"max_gib"`

	// time without use after which an image is removed; 0: never for its age
	MaxAge time.Duration `yaml:"max_age"`
	// Registries are those from which tasks may pull images: docker.io, ghcr.io, 127.0.0.1:5000. Empty:
	// tasks may only name images that are on the host already.
	Registries []string `yaml:"registries"`
	// Mirrors are tried before a registry, by its name. Insecure registries are reached without a check of
	// the certificate, or by HTTP.
	Mirrors  map[string][]string `yaml:"mirrors"`
	Insecure []string            `yaml:"insecure"`
}

// ImagesDir is the folder of the unpacked images.
func (c Config) ImagesDir() string {
	if c.Sandbox.Images.Dir != "" {
		return c.Sandbox.Images.Dir
	}

	return filepath.Join(c.Data, "images")
}

func (i Images) validate(p *problems) {
	p.check(i.MaxGiB >= 0, "sandbox.images.max_gib", "must be 0 (no bound) or more, got %d", i.MaxGiB)
	p.check(
		i.MaxAge == 0 || i.MaxAge >= leastRetention,
		"sandbox.images.max_age", "must be 0 (no bound) or at least %s, got %s", leastRetention, i.MaxAge,
	)

	for n, host := range i.Registries {
		checkRegistry(p, fmt.Sprintf("sandbox.images.registries[%d]", n), host)
	}

	for n, host := range i.Insecure {
		checkRegistry(p, fmt.Sprintf("sandbox.images.insecure[%d]", n), host)
	}

	for host, mirrors := range i.Mirrors {
		checkRegistry(p, "sandbox.images.mirrors", host)

		for _, mirror := range mirrors {
			checkRegistry(p, "sandbox.images.mirrors."+host, mirror)
		}
	}
}

// checkRegistry refuses a name of a registry with a scheme or a path.
func checkRegistry(p *problems, path, host string) {
	got, err := image.Registry(host + "/x/y:1")
	p.check(err == nil && got == host, path,
		"must be the name of a registry like docker.io or 10.0.0.5:5000, got %q", host)
}
