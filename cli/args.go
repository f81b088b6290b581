package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"aether/profile"
	"aether/sandbox"
)

// unknownName is the error for a name that none of the known ones matches.
func unknownName(field, name string, known []string) error {
	return &sandbox.Error{Class: sandbox.Invalid, Field: field,
		Err:    &profile.UnknownError{Name: name, Known: known},
		Remedy: "known: " + strings.Join(known, ", ")}
}

// exactly wants n arguments, which what describes.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == n {
			return nil
		}
		return &sandbox.Error{Class: sandbox.Invalid, Field: "arguments",
			Reason: fmt.Sprintf("%s takes %s, %d given", cmd.Name(), what, len(args)),
			Remedy: "usage: " + cmd.UseLine()}
	}
}

// noArguments refuses any.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return sandbox.Invalidf("arguments", "%s takes none, not %.60q", cmd.Name(), args[0])
}

// flagError makes what the flag parser refuses bad input.
func flagError(cmd *cobra.Command, err error) error {
	if !cmd.HasParent() && cmd.Flags().NArg() > 0 {
		// The flag of a command that does not exist: the command is the fault.
		return knownCommand(cmd, cmd.Flags().Args())
	}
	var missing *pflag.NotExistError
	var empty *pflag.ValueRequiredError
	var wrong *pflag.InvalidValueError
	switch {
	case errors.As(err, &missing):
		return unknownName("flag", dashed(missing.GetSpecifiedName()), flagNames(cmd))
	case errors.As(err, &empty):
		return sandbox.Invalidf(dashed(empty.GetSpecifiedName()), "a value must follow")
	case errors.As(err, &wrong):
		return sandbox.Invalidf(dashed(wrong.GetFlag().Name), "%.60q is not %s", wrong.GetValue(), meant(wrong.GetFlag().Value.Type()))
	}
	return &sandbox.Error{Class: sandbox.Invalid, Field: "flag", Err: err}
}

// meant is what the value of a flag should have been.
func meant(kind string) string {
	switch kind {
	case "int", "int64":
		return "a whole number"
	case "float64":
		return "a number"
	case "duration":
		return "a duration such as 30s or 5m"
	}
	return "a " + kind
}

// dashed is a flag as it is typed; the parser tells shorthands by their length.
func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}
