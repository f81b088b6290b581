//go:build !linux

package oci

import "aether/driver/command"

func system(r Runtime) command.System { return command.System{Name: string(r)} }
