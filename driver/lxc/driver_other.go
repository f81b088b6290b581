//go:build !linux

package lxc

import "aether/driver/command"

func system() command.System { return command.System{Name: Name} }
