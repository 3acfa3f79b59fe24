package command_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rolloutd/rolloutd/internal/agent/command"
	"github.com/rolloutd/rolloutd/internal/fault"
)

func TestSpecIsChecked(t *testing.T) {
	t.Parallel()

	good := func() command.Spec {
		return command.Spec{Name: "a", Package: "@s/p@1.2.3-rc.1", Command: []string{"{dir}/a"}}
	}
	require.NoError(t, good().Validate())

	for _, p := range command.Presets() {
		require.NoError(t, p.Validate(), p.Name)
	}

	braces := good()
	braces.Command = []string{
		"{dir}/a",
		"{instruction_file}",
		"${name}",
		"{}",
		`{"a":1}`,
		"{1,2}",
		"awk '{print}' x",
		"{ print }",
		"{NAME}",
	}
	braces.Files = map[string]string{"/x": "{other}"}
	require.NoError(t, braces.Validate())

	unversioned := good()
	unversioned.Package = "p@latest"
	require.EqualError(
		t,
		unversioned.Validate(),
		`agent "a": package: must have an exact version such as "@scope/name@1.2.3", got "p@latest"`,
	)

	for name, c := range map[string]struct {
		change func(*command.Spec)
		field  string
	}{
		"no name":          {func(s *command.Spec) { s.Name = "" }, "name"},
		"a path":           {func(s *command.Spec) { s.Name = "../x" }, "name"},
		"two origins":      {func(s *command.Spec) { s.Folder = "/x" }, "folder"},
		"a relative path":  {func(s *command.Spec) { s.Package, s.Folder = "", "x" }, "folder"},
		"no version":       {func(s *command.Spec) { s.Package = "p" }, "package"},
		"a range":          {func(s *command.Spec) { s.Package = "p@^1.2.3" }, "package"},
		"a tag":            {func(s *command.Spec) { s.Package = "p@latest" }, "package"},
		"an option":        {func(s *command.Spec) { s.Package = "--prefix=/@1.2.3" }, "package"},
		"no command":       {func(s *command.Spec) { s.Command = nil }, "command"},
		"no folder":        {func(s *command.Spec) { s.Package = "" }, "command"},
		"output elsewhere": {func(s *command.Spec) { s.Output = "out" }, "output"},
		"files elsewhere":  {func(s *command.Spec) { s.Files = map[string]string{"x": ""} }, "files"},
		"misspelled":       {func(s *command.Spec) { s.Command = []string{"a", "--task={instructions}"} }, "command"},
		"unknown in env":   {func(s *command.Spec) { s.Env = map[string]string{"URL": "{model-url}/x"} }, "env"},
		"unknown in check": {func(s *command.Spec) { s.Check = []string{"{folder}/a", "--version"} }, "check"},
		"broken failure":   {func(s *command.Spec) { s.Failure = "(" }, "failure"},
		"broken result":    {func(s *command.Spec) { s.Result = "(" }, "result"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			s := good()
			c.change(&s)

			var err *fault.Error
			require.ErrorAs(t, s.Validate(), &err)
			require.Equal(t, fault.Invalid, err.Kind)
			require.Equal(t, c.field, err.Field)

			_, newErr := command.New(s, command.Options{})
			require.Error(t, newErr)
		})
	}
}
