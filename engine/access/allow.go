package access

import (
	"fmt"
	"reflect"
	"slices"

	"aether/sandbox"
)

// rule decides on one field of a Spec. It is asked whether the field is set or not,
// since leaving a limit out may be what is not allowed.
type rule func(Policy, sandbox.Spec) error

// free is the rule of fields that are the sandbox's own affair.
func free(Policy, sandbox.Spec) error { return nil }

// rules has every field of a Spec that a tenant may set, by its path in Go. A field
// that is not here is refused to tenants as soon as it is set.
var rules = map[string]rule{
	"ID":                   allowID,
	"Image":                allowImage,
	"Isolation":            allowIsolation,
	"Command.Env":          free,
	"Command.WorkDir":      free, // inside
	"Command.User":         free, // inside
	"Limits.MemoryBytes":   allowMemory,
	"Limits.CPUs":          bounded("limits.cpus", func(l sandbox.Limits) float64 { return l.CPUs }),
	"Limits.Processes":     bounded("limits.processes", func(l sandbox.Limits) int64 { return l.Processes }),
	"Limits.DiskBytes":     allowDisk,
	"Limits.DiskBacked":    free, // what it takes of the host's disk is DiskBytes
	"Limits.DiskReadRate":  bounded("limits.disk_read_rate", func(l sandbox.Limits) int64 { return l.DiskReadRate }),
	"Limits.DiskWriteRate": bounded("limits.disk_write_rate", func(l sandbox.Limits) int64 { return l.DiskWriteRate }),
	"Network.Mode":         allowNetwork,
	"Network.Allow":        allowEgress,
	"Network.Deny":         free,
	"Network.Connections":  free, // what they may take of the host is bounded for all together
	"Network.Rate":         free,
	"Network.HTTP.Host":    free, // it allows no host, and the secrets of a rule are the tenant's
	"Network.HTTP.Methods": free,
	"Network.HTTP.Paths":   free,
	"Network.HTTP.Headers": free,
	"Network.Proxy":        allowProxy,
	"Mounts.Source":        allowMounts,
	"Mounts.Writable":      free, // allowMounts looks at both
	"Mounts.Target":        free, // inside
	"Timeouts.Lifetime":    free,
	"Metadata":             free,
}

// Allow says whether a policy allows a Spec to a tenant. It is asked before the
// engine sets anything of its own in it, and after Complete. Errors: Denied, with the
// field.
func Allow(policy Policy, spec sandbox.Spec) error {
	for _, path := range setFields("", reflect.ValueOf(spec)) {
		if rules[path] == nil {
			return denied(path, "", "no rule says whether a tenant may set it")
		}
	}
	for _, path := range ruleOrder {
		if err := rules[path](policy, spec); err != nil {
			return err
		}
	}
	return nil
}

// ruleOrder is that of the errors of a Spec that is refused for several reasons.
var ruleOrder = func() []string {
	var paths []string
	for path := range rules {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	return paths
}()

// setFields are the paths of the fields that are not zero. Fields of structs, and of
// structs in lists, have paths of their own, so that a new one in any depth is found.
func setFields(path string, v reflect.Value) (list []string) {
	switch {
	case v.IsZero():
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name := v.Type().Field(i).Name
			if path != "" {
				name = path + "." + name
			}
			list = append(list, setFields(name, v.Field(i))...)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		for i := range v.Len() {
			list = append(list, setFields(path, v.Index(i))...)
		}
	default:
		list = append(list, path)
	}
	return list
}

func denied(field, remedy, format string, args ...any) error {
	return &sandbox.Error{Class: sandbox.Denied, Op: "access", Field: field, Reason: fmt.Sprintf(format, args...), Remedy: remedy}
}

const askOperator = "an operator can allow it in the tenant's policy"

func allowID(_ Policy, s sandbox.Spec) error {
	if s.ID != "" {
		return denied("id", "leave it out", "ids are given, not chosen")
	}
	return nil
}

func allowIsolation(p Policy, s sandbox.Spec) error {
	if s.Isolation < p.Isolation {
		return denied("isolation", "ask for that or more", "%s is weaker than %s, the least that this tenant may have", s.Isolation, p.Isolation)
	}
	return nil
}

func allowMemory(p Policy, s sandbox.Spec) error {
	if s.Limits.MemoryBytes == 0 && !p.UnboundedMemory {
		return denied("limits.memory", "state a limit", "a sandbox of a tenant has bounded memory")
	}
	return bounded("limits.memory", func(l sandbox.Limits) int64 { return l.MemoryBytes })(p, s)
}

func allowDisk(p Policy, s sandbox.Spec) error {
	if s.Limits.DiskBytes == 0 && !p.UnboundedDisk {
		return denied("limits.disk", "state a limit", "a sandbox of a tenant has a bounded disk")
	}
	return bounded("limits.disk", func(l sandbox.Limits) int64 { return l.DiskBytes })(p, s)
}

// bounded is the rule of a limit that the policy may have a maximum for.
func bounded[N int64 | float64](field string, of func(sandbox.Limits) N) rule {
	return func(p Policy, s sandbox.Spec) error {
		most, got := of(p.MaxLimits), of(s.Limits)
		if most > 0 && (got == 0 || got > most) {
			return denied(field, "ask for less", "%v is over %v, the most that this tenant may have (0 is no limit)", got, most)
		}
		return nil
	}
}

func allowMounts(p Policy, s sandbox.Spec) error {
	for _, m := range s.Mounts {
		listed := slices.ContainsFunc(p.Mounts, func(a AllowedMount) bool {
			return a.Source == m.Source && (a.Writable || !m.Writable)
		})
		if !listed {
			return denied("mounts", askOperator, "a tenant may not mount %.80q of the host (writable: %v)", m.Source, m.Writable)
		}
	}
	return nil
}
