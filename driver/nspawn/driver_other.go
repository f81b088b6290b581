//go:build !linux

package nspawn

import "aether/driver/launched"

func system() launched.System { return launched.System{Name: Name} }
