package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver/docker/dockertest"
	"github.com/rolloutd/rolloutd/internal/image/imagetest"
	"github.com/rolloutd/rolloutd/internal/pool"
	"github.com/rolloutd/rolloutd/internal/rollout"
)

// The paths of rolloutd's files in the root file system of a host.
const (
	hostBinary = "/usr/local/bin/rolloutd"
	hostConfig = "/etc/rolloutd/host.yaml"
	hostCerts  = "/etc/rolloutd/certs"
)

// hostRoot creates a root file system with rolloutd and sandboxd, the certificates, and a configuration
// whose only backend is docker.
func hostRoot(t *testing.T, certs string) string {
	t.Helper()
	dir := t.TempDir()
	// the driver exec runs hosts as an unprivileged user
	require.NoError(t, os.Chmod(dir, 0o755))
	require.NoError(t, imagetest.Fill(dir, append(imagetest.Programs(), "rg")))
	require.NoError(t, imagetest.Glibc(dir))

	for at, from := range map[string]string{
		hostBinary:                filepath.Join(bin, "rolloutd"),
		"/usr/local/bin/sandboxd": filepath.Join(bin, "sandboxd"),
		hostCerts + "/ca.pem":     filepath.Join(certs, "ca.pem"),
		hostCerts + "/cert.pem":   filepath.Join(certs, "cert.pem"),
		hostCerts + "/key.pem":    filepath.Join(certs, "key.pem"),
	} {
		text, err := os.ReadFile(from)
		require.NoError(t, err)
		writeHostFile(t, dir+at, text)
	}
	// the test's environment, which the driver exec passes to hosts, may name this file
	const authorities = "/etc/ssl/certs/ca-certificates.crt"
	if text, err := os.ReadFile(authorities); err == nil {
		writeHostFile(t, dir+authorities, text)
	}

	writeHostFile(t, dir+hostConfig, []byte("sandbox: {backends: {docker: {}}}\n"))
	writeHostFile(
		t,
		dir+"/etc/passwd",
		[]byte("root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534:nobody:/tmp:/bin/false\n"),
	)

	return dir
}

func writeHostFile(t *testing.T, path string, text []byte) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, text, 0o755))
}

// Hosts run without privileges, as containers or in a chroot of Nomad. Their sandboxes are containers of a
// daemon that they reach by TLS. The test does not use the backend local, which needs privileges in such
// hosts that not every machine has.
func TestNomadPoolDrivers(t *testing.T) {
	engine := dockertest.ForTest(t)
	require.NoError(t, engine.Programs(t.Context(), "agents:1", "rg"))
	root := hostRoot(t, engine.Certs)
	require.NoError(t, engine.Import(t.Context(), root, "hosts:1", ""))

	for _, o := range []nomadOptions{
		{
			driver: pool.DriverDocker,
			plugin: fmt.Sprintf("plugin \"docker\" {\n config {\n endpoint = %q\n gc {\n image = false\n }\n }\n}", engine.Socket),
		},
		{driver: pool.DriverExec, client: chroot(root)},
	} {
		t.Run(o.driver, func(t *testing.T) {
			f := startNomadFleet(t, nomadFleetOptions{
				nomad: o,
				pool: map[string]any{
					"sandbox_image": "hosts:1",
					"command":       hostBinary,
					"host_config":   hostConfig,
					"backend":       "docker",
					"memory_mib":    512,
				},
				env: map[string]any{
					"DOCKER_HOST":           engine.TLS,
					"DOCKER_CERT_PATH":      hostCerts,
					"ROLLOUTD_DOCKER_IMAGE": "agents:1",
					"ROLLOUTD_AGENTS_DIR":   "/tmp/agents",
				},
				config: map[string]any{
					"sandbox": map[string]any{"backends": map[string]any{"docker": map[string]any{}}},
				},
				script: reactScript,
			})
			f.command("up", "p")
			f.await("one host", hostsRun(1))

			a := reactArgs()
			a["sandbox"] = args{"backend": "docker"}
			result := runRollout(t, f.url, a)
			require.Equal(t, rollout.Completed, result.Outcome, deref(result.Error))
			requireReact(t, result)
			f.command("down", "p")
			f.awaitPurged()
		})
	}
}

// chroot returns the configuration with which Nomad's client builds the file system of its tasks from root.
func chroot(root string) string {
	text := "chroot_env {\n"
	for _, dir := range []string{"bin", "etc", "lib", "lib64", "usr"} {
		text += fmt.Sprintf("  %q = %q\n", filepath.Join(root, dir), "/"+dir)
	}

	return text + "}"
}
