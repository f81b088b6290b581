// Package lab is the one way in which things are measured here: contenders that
// take turns in interleaved rounds, samples with their parts, statistics, rows,
// targets and reports in text and JSON. What is measured is in the packages below
// it, one for each subject; who measures is `make bench` and `aether bench`. It
// decides nothing about sandboxes; docs/benchmarks.md says how to read a report.
package lab
