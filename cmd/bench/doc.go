// Command bench measures Aether on this host, beside its peers, in one interleaved
// run: `make bench`. It is a preset of package lab's subjects, by flags; what is
// measured and how is lab's, and docs/benchmarks.md says how to read what it prints.
package main
