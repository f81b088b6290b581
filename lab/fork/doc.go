// Package fork measures what a fork of a running sandbox costs on this host:
// interpreters with modules and data, the pause of the source, crowds of children
// and claims from a pool, beside fresh starts and plain forks, in one interleaved
// run. It works over any driver that can fork, and knows none by name;
// docs/benchmarks.md says how to read what it prints.
package fork
