package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rolloutd/rolloutd/internal/fault"
)

// Strict makes a command, which has all of its subcommands, and these refuse flags with an empty value, and reword errors
// about flags for people. A command that only groups others prints its help, and refuses what is none of them.
func Strict(root *cobra.Command) {
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return checkValues(cmd.Flags()) }

	for _, cmd := range root.Commands() {
		strictGroup(cmd)
	}
}

// strictGroup makes the groups of commands in a tree refuse an unknown one, for which cobra prints the help and succeeds.
func strictGroup(cmd *cobra.Command) {
	if cmd.HasSubCommands() && !cmd.Runnable() {
		cmd.Args = Subcommands
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}

	for _, sub := range cmd.Commands() {
		strictGroup(sub)
	}
}

// flagError rewords errors of flags that do not parse, which name Go functions.
func flagError(cmd *cobra.Command, err error) error {
	var (
		value *pflag.InvalidValueError
		none  *pflag.NotExistError
	)
	switch {
	case errors.As(err, &value):
		return fault.New(fault.Invalid, "--%s: must be %s, got %q",
			value.GetFlag().Name, describeType(value.GetFlag().Value.Type()), value.GetValue())
	case errors.As(err, &none):
		return fault.New(fault.Invalid, "%v; see %s --help", err, cmd.CommandPath())
	default:
		return &fault.Error{Kind: fault.Invalid, Err: err}
	}
}

func describeType(kind string) string {
	switch kind {
	case "duration":
		return `a duration such as "55s" or "5m"`
	case "uint16":
		return "a number from 0 to 65535"
	case "int":
		return "a whole number"
	default:
		return "true or false"
	}
}

// checkValues refuses empty texts, which mostly come from an unset variable of a script, and negative
// durations. Both would act like an absent flag.
func checkValues(flags *pflag.FlagSet) error {
	var errs []error

	flags.Visit(func(f *pflag.Flag) {
		d, err := time.ParseDuration(f.Value.String())
		switch {
		case f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == "":
			errs = append(errs, fault.New(fault.Invalid, "--%s: must not be empty", f.Name))
		case f.Value.Type() == "duration" && err == nil && d < 0:
			errs = append(errs, fault.New(fault.Invalid, "--%s: must not be negative, got %s", f.Name, d))
		}
	})

	return errors.Join(errs...)
}

// Arguments requires exactly the named arguments, none of them blank.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			takes := "no argument"
			if len(names) > 0 {
				takes = strings.Join(names, " ")
			}

			return fault.New(fault.Invalid, "%s takes %s, got %s", cmd.CommandPath(), takes, quoted(args))
		}

		for i, arg := range args {
			if err := filled(cmd, names[i], arg); err != nil {
				return err
			}
		}

		return nil
	}
}

// OneOrMore checks that there is an argument of that name, or several.
func OneOrMore(name string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fault.New(fault.Invalid, "%s takes one %s or more, got none", cmd.CommandPath(), name)
		}

		for _, arg := range args {
			if err := filled(cmd, name, arg); err != nil {
				return err
			}
		}

		return nil
	}
}

func filled(cmd *cobra.Command, name, arg string) error {
	if strings.TrimSpace(arg) == "" {
		return fault.New(fault.Invalid, "%s: %s must not be empty", cmd.CommandPath(), name)
	}

	return nil
}

func quoted(args []string) string {
	if len(args) == 0 {
		return "none"
	}

	return fmt.Sprintf("%q", args)
}

// Subcommands refuses arguments that are not a subcommand, for commands that only group others.
func Subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	// cobra's own value for the root command
	cmd.SuggestionsMinimumDistance = 2

	hint := "see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}

	return fault.New(fault.Invalid, "%[2]s has no command %[1]q; %[3]s", args[0], cmd.CommandPath(), hint)
}
