//go:build !linux

package lxc

import "aether/driver/launched"

func system() launched.System { return launched.System{Name: Name} }
