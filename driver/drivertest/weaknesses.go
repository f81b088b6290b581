package drivertest

import "maps"

// ofOneUser are the tests of what the kernel counts for a user.
var ofOneUser = []string{"inotify instances", "pages of pipes", "descriptors in flight", "pending signals", "room for queues"}

// OneUser are the Weaknesses of drivers whose sandboxes all have the same user of the
// host, with whom each can use up what the kernel counts for that user.
func OneUser(why string) map[string]string { return Weak(why, ofOneUser...) }

// Weak are Weaknesses of the same reason.
func Weak(why string, tests ...string) map[string]string {
	all := map[string]string{}
	for _, name := range tests {
		all[name] = why
	}
	return all
}

// Weaker joins Weaknesses of several reasons.
func Weaker(parts ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, part := range parts {
		maps.Copy(all, part)
	}
	return all
}
