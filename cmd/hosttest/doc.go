// Command hosttest boots stock Debian machines, each a host unlike the others
// (another kernel, other control groups, user namespaces forbidden, another
// processor), and runs in every one a fixed list of checks with the programs of
// this tree. What the checks find is reported, never mended here, and nothing of
// the product depends on it.
//
//	go run ./cmd/hosttest
//	go run ./cmd/hosttest -host debian-12 -short
//	go run ./cmd/hosttest -host debian-12-cgroup1 -way root,user -steps first,limits
package main
