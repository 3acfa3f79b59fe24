package sandbox

import (
	"context"
	"fmt"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// CreateBeside is Create for the sandbox of a service beside the living sandbox of the id main, which is of the spec s:
// it shares that one's loopback network and volumes.
func (b *Backend) CreateBeside(
	ctx context.Context,
	main string,
	s rollout.Sandbox,
	service rollout.Service,
	labels map[string]string,
) (*Sandbox, error) {
	if err := b.Prepare(ctx, service.Sandbox(s.Backend)); err != nil {
		return nil, err
	}

	spec := specOf(service.Sandbox(s.Backend), b.defaults)
	spec.Labels, spec.Beside, spec.Hosts = labels, main, hostsOf(s)

	return b.create(ctx, rollout.ServiceID(main, service.Name), spec)
}

// Program returns the program that the image of a service names.
func (b *Backend) Program(ctx context.Context, service rollout.Service) (driver.Program, error) {
	reader, ok := b.driver.(driver.ImageReader)
	if !ok {
		return driver.Program{}, fault.Field("sandbox.services", "are not possible on this backend")
	}

	p, err := reader.Program(ctx, specOf(service.Sandbox(""), b.defaults))
	if err != nil {
		return p, contextual(ctx, fmt.Errorf("image of service %q: %w", service.Name, err))
	}

	return p, nil
}

// hostsOf are the names of 127.0.0.1 in the sandboxes of a rollout with services.
func hostsOf(s rollout.Sandbox) []string {
	if len(s.Services) == 0 {
		return nil
	}

	names := []string{rollout.MainService}
	for _, service := range s.Services {
		names = append(names, service.Name)
	}

	return names
}

func volumesOf(s rollout.Sandbox) []driver.Volume {
	var volumes []driver.Volume
	for _, v := range s.Volumes {
		volumes = append(volumes, driver.Volume{Name: v.Name, Path: v.Path, ReadOnly: v.ReadOnly})
	}

	return volumes
}
