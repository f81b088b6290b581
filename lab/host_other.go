//go:build !linux

package lab

import "aether/sandbox"

var errNotHere = &sandbox.Error{Class: sandbox.Unavailable, Reason: "the sandboxes that are measured are Linux's", Remedy: "use a Linux host"}

// ReadHost describes this host.
func ReadHost() (Host, error) { return Host{}, errNotHere }

// Load is the load average of the last minute.
func Load() (float64, error) { return 0, errNotHere }
