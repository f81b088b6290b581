//go:build !linux

package bubblewrap

import "aether/driver/command"

func system() command.System { return command.System{Name: Name} }
