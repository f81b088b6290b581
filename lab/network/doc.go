// Package network measures the network of sandboxes with egress, beside others that have
// one: how fast a stream, a connection and a request are, and what the network costs a
// sandbox when it is made and while it does nothing. It decides nothing about sandboxes.
package network
