// Package azuretest runs Azurite for tests: Microsoft's emulator of Azure Blob Storage, which checks
// signatures. It needs node and npm.
package azuretest

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/store/emulator"
)

// version of Azurite.
const version = "3.35.0"

// Account of the server.
const Account = "rolloutdtest"

// Container is the container that a server has at its start.
const Container = "rollouts"

// Key is the key of the account, or another one where the prefix is not empty.
func Key(prefix string) string {
	return base64.StdEncoding.EncodeToString([]byte(prefix + "azure-secret-canary-4711"))
}

// Server is a server that ends with its test. It is reached through a listener of the test's own process.
type Server struct{ *emulator.Proxy }

// Start starts a server with an empty container.
func Start(t testing.TB) *Server {
	t.Helper()
	program := install(t)
	cmd := exec.Command(
		"node",
		program,
		"--blobHost",
		"127.0.0.1",
		"--blobPort",
		"0",
		"--location",
		t.TempDir(),
		"--silent",
		"--disableTelemetry",
	)

	cmd.Env = append(os.Environ(), "AZURITE_ACCOUNTS="+Account+":"+Key(""))
	server := emulator.Start(t, cmd)
	s := &Server{Proxy: emulator.NewProxy(t)}
	server.Until(t, func(context.Context) bool {
		at := regexp.MustCompile(`listens on http://(\S+)`).FindStringSubmatch(server.Output())
		if at != nil {
			s.To("tcp", at[1])
		}

		return at != nil
	})
	s.makeContainer(t)

	return s
}

func (s *Server) makeContainer(t testing.TB) {
	t.Helper()

	key, err := azblob.NewSharedKeyCredential(Account, Key(""))
	require.NoError(t, err)
	c, err := azblob.NewClientWithSharedKeyCredential("http://"+s.Address()+"/"+Account, key, nil)
	require.NoError(t, err)
	_, err = c.CreateContainer(t.Context(), Container, nil)
	require.NoError(t, err)
}

// URL is the store's URL of a container.
func (s *Server) URL(container string) string {
	return fmt.Sprintf("azblob://%s?domain=%s&protocol=http", container, s.Address())
}

// Env are the variables by which a program has the credentials.
func Env() []string {
	return []string{"AZURE_STORAGE_ACCOUNT=" + Account, "AZURE_STORAGE_KEY=" + Key("")}
}

// install installs Azurite once for this user.
func install(t testing.TB) string {
	t.Helper()
	dir := emulator.Once(t, "azurite-"+version, func(dir string) error {
		cmd := exec.CommandContext(
			t.Context(),
			"npm",
			"install",
			"--prefix",
			dir,
			"--no-audit",
			"--no-fund",
			"--ignore-scripts",
			"--silent",
			"azurite@"+version,
		)
		cmd.Dir = dir

		return emulator.Run(cmd)
	})

	return filepath.Join(dir, "node_modules", "azurite", "dist", "src", "blob", "main.js")
}
