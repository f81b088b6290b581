// Package battery is a list of attacks on the network of sandboxes, each of which has
// worked against somebody, and of programs that have to go on working. Its tests run both in
// cells, against servers of a world of the tests' own; nothing of it is in any program.
package battery
