// Package daemon measures what the daemon's door costs: the same work by the engine in
// this process, by a daemon over its unix socket and over TCP, and by Docker's API,
// in interleaved rounds; what the daemon itself takes for sandboxes that do nothing; and what agents do, taken
// back calls beside forks and the steps of their loop.
package daemon
