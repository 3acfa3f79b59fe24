package imageconfig_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/driver"
	"github.com/rolloutd/rolloutd/internal/driver/imageconfig"
	"github.com/rolloutd/rolloutd/internal/fault"
	"github.com/rolloutd/rolloutd/internal/image"
	"github.com/rolloutd/rolloutd/internal/rollout"
	"github.com/rolloutd/rolloutd/internal/sandboxd/wire"
)

// imageWith returns an image of one layer with the given user and account files.
func imageWith(t *testing.T, user, passwd, group string) *image.Use {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "etc"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc/passwd"), []byte(passwd), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "etc/group"), []byte(group), 0o600))

	return &image.Use{Image: image.Image{User: user}, Layers: []string{dir}}
}

const (
	passwd = "root:x:0:0:root:/root:/bin/sh\napp:x:1500:100:App:/app:/bin/sh\nbitnami:x:1001:0::/:\nsame:x:1500:7::/:\n1600:x:33:33::/:\n" +
		"far:x:70000:70000::/:\nword:x:one:two::/:\nminus:x:-1:0::/:\nown:x:65530:65530::/:\n:x:9:9::/:\nshort:x\n"
	group = "root:x:0:\nusers:x:100:\nwheel:x:10:app,bitnami\ndocker:x:11:other,app\nbad:x:x:word2\nown:x:65529:inown\n"
)

func TestUserOfAnImage(t *testing.T) {
	t.Parallel()

	for _, c := range []struct{ task, config, want string }{
		{rollout.UserOfImage, "", "0:0:"},
		{rollout.UserOfImage, "app", "1500:100:10,11"},
		{rollout.UserOfImage, "app:users", "1500:100:"},
		{rollout.UserOfImage, "root", "0:0:"},
		{rollout.UserOfImage, "1500", "1500:100:10,11"},
		{rollout.UserOfImage, "1234", "1234:0:"},
		{rollout.UserOfImage, "1234:5678", "1234:5678:"},
		{rollout.UserOfImage, "1001:wheel", "1001:10:"},
		{"bitnami", "app", "1001:0:10"},
		{"1600", "app", "33:33:"}, // a name takes precedence over an id
		{"0:0", "app", "0:0:"},
		{"0:1001", "app", "0:1001:"}, // root with the group id that the verifier has in other sandboxes
		{rollout.UserRoot, "app", "0:0:"},
	} {
		g, err := imageconfig.Of(
			imageconfig.Stored(imageWith(t, c.config, passwd, group)),
			driver.Spec{User: c.task},
			true,
		)
		require.NoError(t, err, "%+v", c)
		require.Equal(t, []string{"--agent", c.want, "--bare=false"}, g.Agent(), "%+v", c)
		require.Equal(t, strings.HasPrefix(c.want, "0:"), g.IsRoot())

		verifier := wire.ImageVerifierID
		if c.want == "0:0:" {
			verifier = wire.VerifierID
		}

		require.Equal(t, verifier, g.Account.VerifierID(), "%+v", c)
	}

	g, err := imageconfig.Of(imageconfig.Stored(imageWith(t, "app", passwd, group)), driver.Spec{}, true)
	require.NoError(t, err)
	require.Empty(t, g.Agent(), "a task that does not ask gets the sandbox's own user")
}

// The user and the account files of an image are untrusted. An invalid user is refused with the field of the task.
func TestRefusedUsersOfAnImage(t *testing.T) {
	t.Parallel()

	many := &strings.Builder{}
	for n := range 100 {
		fmt.Fprintf(many, "g%d:x:%d:app\n", n, n)
	}

	for name, c := range map[string]struct{ config, passwd, group, want string }{
		"no such user":     {"stranger", passwd, group, "not in /etc/passwd"},
		"no such group":    {"app:none", passwd, group, "not in /etc/group"},
		"id too high":      {"far", passwd, group, "go from 0 to"},
		"number too high":  {"99999999999999999999", passwd, group, "not in /etc/passwd"},
		"negative":         {"minus", passwd, group, "go from 0 to"},
		"no number":        {"word", passwd, group, "must be a number"},
		"sandboxd":         {"own", passwd, group, "which the sandbox reserves"},
		"sandboxd by id":   {"65530", passwd, group, "which the sandbox reserves"},
		"group of another": {"app:65529", passwd, group, "which the sandbox reserves"},
		"member of it":     {"inown", passwd + "inown:x:5:5::/:\n", group, "which the sandbox reserves"},
		"no name":          {"$(id)", passwd, group, "must be a name or an id"},
		"three parts":      {"a:b:c", passwd, group, "must be a name or an id"},
		"newline":          {"app\nroot", passwd, group, "must be a name or an id"},
		"in many groups":   {"app", passwd, many.String(), "the maximum is 64"},
		"huge":             {"app", strings.Repeat("x", 2<<20), group, "bytes"},
	} {
		_, err := imageconfig.Of(
			imageconfig.Stored(imageWith(t, c.config, c.passwd, c.group)),
			driver.Spec{User: rollout.UserOfImage},
			true,
		)
		require.Equal(t, fault.Invalid, fault.KindOf(err), "%s: %v", name, err)
		require.ErrorContains(t, err, c.want, name)
	}

	_, err := imageconfig.Of(
		imageconfig.Stored(imageWith(t, "app", passwd, group)),
		driver.Spec{User: rollout.UserOfImage},
		false,
	)
	require.ErrorContains(t, err, "needs a worker that runs as root")
	_, err = imageconfig.Of(nil, driver.Spec{User: rollout.UserOfImage}, true)
	require.ErrorContains(t, err, "is needed")
}

// An account file that is a link, or lies below one, is not followed and counts as empty.
func TestLinkedAccounts(t *testing.T) {
	t.Parallel()
	use := imageWith(t, "app", passwd, group)
	require.NoError(t, os.Remove(filepath.Join(use.Layers[0], "etc/passwd")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(use.Layers[0], "etc/passwd")))
	_, err := imageconfig.Of(imageconfig.Stored(use), driver.Spec{User: "daemon"}, true)
	require.ErrorContains(t, err, "not in /etc/passwd")
}
