//go:build !linux

package bubblewrap

import "aether/driver/launched"

func system() launched.System { return launched.System{Name: Name} }
