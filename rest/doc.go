// Package rest is the daemon's door: an HTTP server for everything that the engine can
// do under /v1, its listeners, and a Go client with the same methods. It finds out who
// calls and bounds what anybody can send or hold; what a caller may, and everything
// about sandboxes, is the engine's business.
//
// # Who calls
//
// A connection to the unix socket is known by its user: the daemon's own and root are
// operators, others are closed. Elsewhere every request carries a key, as X-API-Key or
// as a bearer token. Plain TCP is for the loopback alone.
//
// # Bounds
//
// Bodies, headers, connections, creations, streams and requests a second are bounded,
// and so is the time that anybody may take to send a request or to read a part of its
// answer. What is over a bound is refused as exhausted, with the time to wait.
//
// # The guest service
//
// What a sandbox's own guest service answers is written by whoever has the sandbox. The
// door carries it without buffering and without believing it: no key goes in, and no
// header comes out that a client would act on.
package rest
