// Package e2b is a dialect of the daemon's door: the API of E2B, whose clients thus work
// against this daemon unchanged. It translates, and decides nothing about sandboxes.
//
// # Two kinds of requests
//
// Those to the control plane bring a key of the daemon's, and name what they are about in
// their path. Those to something inside a sandbox name it in the headers E2b-Sandbox-Id and
// E2b-Sandbox-Port, or in a host PORT-ID.DOMAIN: the guest service at port 49983, code
// contexts at port 49999, and whatever listens at any other port.
//
// # Tokens
//
// A sandbox has two tokens, which are derived from its id and a key of the daemon's and are
// kept nowhere: one for its guest service, and one for its ports if those are not public.
// Both are checked here; a sandbox never sees them.
//
// # What a sandbox is marked by
//
// What E2B knows of a sandbox and the engine does not is in the metadata of its Spec.
package e2b
