//go:build !linux

package oci

import "aether/driver/launched"

func system(r Runtime) launched.System { return launched.System{Name: string(r)} }
