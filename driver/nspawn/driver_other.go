//go:build !linux

package nspawn

import "aether/driver/command"

func system() command.System { return command.System{Name: Name} }
