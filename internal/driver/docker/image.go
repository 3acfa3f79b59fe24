package docker

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"runtime"
	"strings"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/moby/moby/api/pkg/authconfig"
	"github.com/moby/moby/api/types/registry"
	"github.com/moby/moby/client"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
)

// sandboxImage is the image of a sandbox.
type sandboxImage struct {
	id      string
	env     []string
	workdir string
	user    string
	volumes map[string]struct{}

	// the writable ones
	folders []folder
}

// unsetEnv removes the image's environment from a process.
func (f sandboxImage) unsetEnv() []string {
	var names []string

	for _, line := range f.env {
		name, _, _ := strings.Cut(line, "=")
		names = append(names, name)
	}

	return names
}

// image returns the image of a sandbox, which is that of the spec with the additions, and the other
// properties that the sandbox takes from it.
func (d *Driver) image(ctx context.Context, spec driver.Spec) (sandboxImage, imageconfig.Guest, error) {
	if err := d.checkUser(ctx, spec); err != nil {
		return sandboxImage{}, imageconfig.Guest{}, err
	}

	name := cmp.Or(spec.Image, d.o.Image)
	if name == "" {
		return sandboxImage{}, imageconfig.Guest{}, fault.Field("image",
			"is needed: the backend docker has no default image (sandbox.docker.image)")
	}

	base, err := d.base(ctx, name)
	if err != nil {
		return sandboxImage{}, imageconfig.Guest{}, err
	}

	files := &accountFiles{ctx: ctx, d: d, base: base}

	g, err := imageconfig.Of(&imageconfig.Image{
		Env:     base.env,
		Workdir: base.workdir,
		User:    base.user,
		Files:   files,
	}, spec, true)
	if err = errors.Join(err, files.close()); err != nil {
		return sandboxImage{}, imageconfig.Guest{}, err
	}

	if base.folders, err = foldersOf(g, spec.Image != "", base.volumes); err != nil {
		return sandboxImage{}, imageconfig.Guest{}, err
	}

	made, sizes := base, []int64(nil)
	if made.id, sizes, err = d.derived(ctx, base, g); err == nil {
		err = checkSizes(filled(base.folders), sizes, spec)
	}

	return made, g, err
}

// checkUser refuses an agent that is a user of the image if root of a container is root of the daemon's machine.
func (d *Driver) checkUser(ctx context.Context, spec driver.Spec) error {
	if spec.User == "" {
		return nil
	}

	info, err := d.daemon(ctx)
	if err == nil && !mapsUsers(info) {
		err = fault.Field(
			"user",
			"%q needs a Docker daemon that maps the users of containers to others of its machine: set userns-remap in its daemon.json, "+
				"or use the backend local",
			spec.User,
		)
	}

	return err
}

// accountFiles reads accounts and links from an image of the daemon, in a container that is created on demand and never runs.
type accountFiles struct {
	ctx  context.Context
	d    *Driver
	base sandboxImage
	id   string
}

// FirstNoFolder implements guest.Files. Folders are checked when files are added to the image.
func (f *accountFiles) FirstNoFolder(string) (string, fs.FileMode, error) { return "", 0, nil }

// HoldsPrograms implements guest.Files. Folders are looked through in the container.
func (f *accountFiles) HoldsPrograms(string) (bool, error) { return false, nil }

// Resolve implements guest.Files.
func (f *accountFiles) Resolve(p string) (string, error) {
	c, err := f.container()
	if err != nil {
		return "", err
	}

	at := "/"
	for part := range strings.SplitSeq(p, "/") {
		at = path.Join(at, part)

		target, err := c.link(at)
		if err != nil {
			return "", f.d.failed(err, "look into the image")
		}

		at = cmp.Or(target, at)
	}

	return at, nil
}

// ReadFile implements guest.Files.
func (f *accountFiles) ReadFile(path string, most int64) ([]byte, error) {
	c, err := f.container()
	if err != nil {
		return nil, err
	}

	data, err := c.file(path, most)

	return data, f.d.failed(err, "look into the image")
}

// container returns the container, and creates it at the first call.
func (f *accountFiles) container() (unstarted, error) {
	if f.id == "" {
		id, err := f.d.unstarted(f.ctx, f.base)
		if err != nil {
			return unstarted{}, f.d.failed(err, "look into the image")
		}

		f.id = id
	}

	return unstarted{f.ctx, f.d.docker, f.id}, nil
}

func (f *accountFiles) close() error {
	if f.id == "" {
		return nil
	}

	return f.d.failed(f.d.remove(context.WithoutCancel(f.ctx), f.id), "look into the image")
}

// base finds or pulls the image of that name.
func (d *Driver) base(ctx context.Context, name string) (sandboxImage, error) {
	if _, err := image.ParseName(name); err != nil {
		return sandboxImage{}, err
	}

	got, err := d.docker.ImageInspect(ctx, name)
	if cerrdefs.IsNotFound(err) {
		if err := d.pull(ctx, name); err != nil {
			return sandboxImage{}, err
		}

		got, err = d.docker.ImageInspect(ctx, name)
	}

	if cerrdefs.IsNotFound(err) || cerrdefs.IsInvalidArgument(err) {
		return sandboxImage{}, fault.Field("image", "%q is not in the Docker daemon at %s: %v",
			name, d.o.Daemon.address(), err)
	}

	if err != nil {
		return sandboxImage{}, d.failed(err, "look for image %s", name)
	}

	if got.Os != "linux" || got.Architecture != runtime.GOARCH {
		return sandboxImage{}, fault.Field("image", "%q is for %s/%s, and sandboxes need linux/%s",
			name, got.Os, got.Architecture, runtime.GOARCH)
	}

	f := sandboxImage{id: got.ID}
	if got.Config != nil {
		f.env, f.workdir, f.user, f.volumes = got.Config.Env, got.Config.WorkingDir, got.Config.User, got.Config.Volumes
	}

	return f, nil
}

// pull pulls the image, if tasks may use it.
func (d *Driver) pull(ctx context.Context, image string) error {
	if d.o.MayPull == nil {
		return fault.Field("image", "%q is not in the Docker daemon at %s", image, d.o.Daemon.address())
	}

	if err := d.o.MayPull(image); err != nil {
		return err
	}

	credentials, err := credentialsFor(image)
	if err != nil {
		return fault.Field("image", "%q: credentials of the Docker configuration: %v", image, err)
	}

	pulling, err := d.docker.ImagePull(ctx, image, client.ImagePullOptions{RegistryAuth: credentials})
	if err == nil {
		err = pulling.Wait(ctx)
	}

	switch {
	case err == nil:
		return nil
	case cerrdefs.IsNotFound(err) || cerrdefs.IsPermissionDenied(err) || cerrdefs.IsUnauthorized(err) || cerrdefs.IsInvalidArgument(err):
		return fault.Field("image", "%q cannot be pulled: %v", image, err)
	default:
		return d.failed(err, "pull image %s", image)
	}
}

// credentialsFor reads those of the image's registry from the Docker configuration.
func credentialsFor(image string) (string, error) {
	ref, err := name.ParseReference(image)
	if err != nil {
		return "", err
	}

	from, err := authn.DefaultKeychain.Resolve(ref.Context().Registry)
	if err != nil {
		return "", err
	}

	c, err := from.Authorization()
	if err != nil {
		return "", err
	}

	return authconfig.Encode(registry.AuthConfig{
		Username:      c.Username,
		Password:      c.Password,
		Auth:          c.Auth,
		IdentityToken: c.IdentityToken,
		RegistryToken: c.RegistryToken,
	})
}
