package tools

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/docker/go-units"

	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/network/egress"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// noNetwork is the one value of sandbox.network.
const noNetwork = "none"

// sandbox reads the arguments of the sandbox. It refuses a backend or an image that the deployment does not
// have, and a size above the operator's bound, before the rollout is queued.
func (t *Table) sandbox(a RolloutArgs) (rollout.Sandbox, error) {
	ask := SandboxArgs{}
	if a.Sandbox != nil {
		ask = *a.Sandbox
	}

	s := rollout.Sandbox{
		Backend: ask.Backend, CPU: ask.CPU, DiskMiB: ask.DiskMiB,
		User: ask.User, Workdir: ask.Workdir, ImageEnv: ask.ImageEnv, GradePaths: ask.GradePaths,
		Env: ask.Env, Services: ask.Services, Volumes: ask.Volumes,
		MCPServers: ask.MCPServers, SkillsDir: ask.SkillsDir,
	}
	if ask.Network != "" && ask.Network != noNetwork {
		return s, fault.Field(
			"sandbox.network",
			`must be %q, got %q: no sandbox has a network; the agent reaches the model endpoint `+
				`through the model channel, in mode black_box too, and the hosts of the argument network through a proxy`,
			noNetwork,
			ask.Network,
		)
	}

	if s.Backend != "" && !slices.Contains(t.o.Backends, s.Backend) {
		return s, fault.Field("sandbox.backend", "must be %s, got %q", strings.Join(t.o.Backends, " or "), s.Backend)
	}

	backend := cmp.Or(s.Backend, t.o.Backends[0])

	var err error
	if s.Network, err = t.network(a); err != nil {
		return s, err
	}

	if s.Image, err = t.image(backend, a.Template, ask.Image); err != nil {
		return s, err
	}

	if err = s.CheckImage(); err != nil {
		return s, err
	}

	if err = t.services(s); err != nil {
		return s, err
	}

	if err = checkMCP(s); err != nil {
		return s, err
	}

	if err = s.CheckBackend(backend); err != nil {
		return s, err
	}

	if s.MemoryMiB, err = memory(ask); err != nil {
		return s, err
	}

	if t.o.Backends[0] != rollout.DefaultBackend {
		s.Backend = backend
	}

	return s, s.CheckMax(t.o.MaxSandbox[cmp.Or(s.Backend, rollout.DefaultBackend)])
}

// services refuses services that cannot run, whose image the deployment does not have, or that are too large.
func (t *Table) services(s rollout.Sandbox) error {
	if err := s.CheckServices(); err != nil {
		return err
	}

	for i, service := range s.Services {
		field := fmt.Sprintf("sandbox.services[%d]", i)
		if err := t.checkImage(field+".image", cmp.Or(s.Backend, t.o.Backends[0]), service.Image); err != nil {
			return err
		}

		err := service.Sandbox(s.Backend).CheckMax(t.o.MaxSandbox[cmp.Or(s.Backend, rollout.DefaultBackend)])
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "%s", field)
		}
	}

	return nil
}

// checkMCP refuses MCP servers that cannot be used, or that the agent could not reach.
func checkMCP(s rollout.Sandbox) error {
	if err := s.CheckMCP(); err != nil {
		return err
	}

	reached, err := egress.ParseAllow(s.Network.ForAgent())
	if err != nil {
		return fault.Field("network.agent", "%v", err)
	}

	for i := range s.MCPServers {
		if address := s.RemoteMCP(i); address != "" && !reached.Covers(address) {
			return fault.Field(fmt.Sprintf("sandbox.mcp_servers[%d].url", i),
				"%s is neither a service beside the agent nor a host that it may reach: name it in network.agent",
				address)
		}
	}

	return nil
}

// image returns the image from template or sandbox.image, which must not differ.
func (t *Table) image(backend, template, image string) (string, error) {
	field, name := "sandbox.image", image
	switch {
	case image == "":
		field, name = "template", template
	case template != "" && template != image:
		return "", fault.Field("template", "is %q but sandbox.image is %q: give one of them", template, image)
	}

	return name, t.checkImage(field, backend, name)
}

// verifierImage refuses an image of the verifier that the deployment does not have.
func (t *Table) verifierImage(backend string, a RolloutArgs) error {
	if a.Verifier == nil || a.NoVerify {
		return nil
	}

	return t.checkImage("verifier.image", cmp.Or(backend, t.o.Backends[0]), a.Verifier.Image)
}

func (t *Table) checkImage(field, backend, name string) error {
	if name == "" || slices.Contains(t.o.Images, name) {
		return nil
	}

	if t.o.CheckImage == nil {
		return fault.Field(field, "there is no image %q here: leave it out for the deployment's own", name)
	}

	if err := t.o.CheckImage(backend, name); err != nil {
		return fault.Field(field, "%v", err)
	}

	return nil
}

// memory returns MiB; 0: the default.
func memory(ask SandboxArgs) (int, error) {
	if ask.Memory == "" {
		return ask.MemoryMiB, nil
	}

	size := ask.Memory
	if _, err := strconv.ParseFloat(size, 64); err == nil {
		size += "MiB"
	}

	bytes, err := units.RAMInBytes(size)
	if err != nil || bytes < units.MiB {
		return 0, fault.Field("sandbox.memory", `must be a size like "2GiB" or a number of MiB, got %q`, ask.Memory)
	}

	mib := int(bytes / units.MiB)
	if ask.MemoryMiB != 0 && ask.MemoryMiB != mib {
		return 0, fault.Field("sandbox.memory", "is %q but sandbox.memory_mib is %d: give one of them",
			ask.Memory, ask.MemoryMiB)
	}

	return mib, nil
}

// NetworkMax are the hosts that the operator lets tasks reach. The zero value is none.
type NetworkMax struct {
	// Hosts are the patterns as the operator wrote them, for messages.
	Hosts []string

	// List has the patterns of Hosts.
	List egress.AllowList
}

// network reads the hosts that the task may reach. It refuses hosts that the operator does not allow,
// before the rollout is queued.
func (t *Table) network(a RolloutArgs) (*rollout.Network, error) {
	var n rollout.Network
	if a.Network != nil {
		n = rollout.Network{Allow: a.Network.Allow, Setup: a.Network.Setup, Agent: a.Network.Agent}
	}

	if a.AllowNetwork != nil && !*a.AllowNetwork && namesHosts(n) {
		return nil, fault.Field("allow_network", "is false, but network names hosts")
	}

	if err := t.checkNetwork(&n); err != nil {
		return nil, err
	}

	if a.AllowNetwork != nil && *a.AllowNetwork {
		if err := t.allowAll(&n); err != nil {
			return nil, err
		}
	}

	if !namesHosts(n) {
		return nil, nil //nolint:nilnil // no network, no error
	}

	return &n, nil
}

func namesHosts(n rollout.Network) bool { return len(n.Allow)+len(n.Setup)+len(n.Agent) > 0 }

// allowAll lets the phases without a list of their own reach what the operator allows. An empty list is one: its phase
// reaches nothing.
func (t *Table) allowAll(n *rollout.Network) error {
	if n.Allow != nil || n.Setup != nil && n.Agent != nil {
		return nil
	}

	if t.o.MaxNetwork.List.Empty() {
		return fault.Field("allow_network",
			"the operator lets no task reach a network (sandbox.network.max, ROLLOUTD_NETWORK_MAX)")
	}

	switch hosts := t.o.MaxNetwork.Hosts; {
	case n.Setup != nil:
		n.Agent = hosts
	case n.Agent != nil:
		n.Setup = hosts
	default:
		n.Allow = hosts
	}

	return nil
}

func (t *Table) checkNetwork(n *rollout.Network) error {
	for _, list := range []struct {
		field string
		hosts []string
	}{
		{"network.allow", n.Allow},
		{"network.setup", n.Setup},
		{"network.agent", n.Agent},
	} {
		if _, err := egress.ParseAllow(list.hosts); err != nil {
			return fault.Field(list.field, "%v", err)
		}

		for _, host := range list.hosts {
			if t.o.MaxNetwork.List.Covers(host) {
				continue
			}

			most := "none"
			if len(t.o.MaxNetwork.Hosts) > 0 {
				most = strings.Join(t.o.MaxNetwork.Hosts, ", ")
			}

			return fault.Field(list.field,
				"%q is not among the hosts that the operator lets tasks reach (%s): see sandbox.network.max, ROLLOUTD_NETWORK_MAX",
				host, most)
		}
	}

	return nil
}
