package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Strict has a command and those below it refuse arguments and flags in words for people, and flags that are given and say nothing.
func Strict(root *cobra.Command) {
	root.SetFlagErrorFunc(flagError)
	root.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return sensible(cmd.Flags()) }
}

// flagError rewords what is said of flags that cannot be read: it tells of Go's own functions.
func flagError(cmd *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	var none *pflag.NotExistError
	switch {
	case errors.As(err, &value):
		return fmt.Errorf("--%s: want %s, got %q", value.GetFlag().Name, wanted(value.GetFlag().Value.Type()), value.GetValue())
	case errors.As(err, &none):
		return fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())
	default:
		return err
	}
}

func wanted(kind string) string {
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

// sensible refuses a text that is empty, mostly a variable of a script that is not set, and a time that is negative. Both would pass for a
// flag that was not given.
func sensible(flags *pflag.FlagSet) error {
	var errs []error
	flags.Visit(func(f *pflag.Flag) {
		d, err := time.ParseDuration(f.Value.String())
		switch {
		case f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == "":
			errs = append(errs, fmt.Errorf("--%s: is given, and empty", f.Name))
		case f.Value.Type() == "duration" && err == nil && d < 0:
			errs = append(errs, fmt.Errorf("--%s: want no less than 0, got %s", f.Name, d))
		}
	})
	return errors.Join(errs...)
}

// Arguments are those that a command wants, by name; each must say something.
func Arguments(names ...string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != len(names) {
			want := "no argument"
			if len(names) > 0 {
				want = strings.Join(names, " ")
			}
			return fmt.Errorf("%s: want %s, got %s", cmd.CommandPath(), want, given(args))
		}
		for i, arg := range args {
			if strings.TrimSpace(arg) == "" {
				return fmt.Errorf("%s: %s is empty", cmd.CommandPath(), names[i])
			}
		}
		return nil
	}
}

func given(args []string) string {
	if len(args) == 0 {
		return "none"
	}
	return fmt.Sprintf("%q", args)
}

// Subcommands is for a command that does nothing itself: what follows it must be a command below.
func Subcommands(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // as cobra has it for the first command of a line
	hint := "see " + cmd.CommandPath() + " --help"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return fmt.Errorf("there is no command %q of %s; %s", args[0], cmd.CommandPath(), hint)
}
