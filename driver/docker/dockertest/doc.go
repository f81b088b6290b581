// Package dockertest starts a Docker daemon for tests, which shares nothing with one that may
// be in use on the host. What is tested with it is not its business.
package dockertest
