// Command bench measures cells beside bwrap, crun and runc on this host, in one
// interleaved run with the same namespaces and the same root: cold spawn, exec,
// idle memory and churn, against the targets that cells are held to. It decides
// nothing about sandboxes; docs/benchmarks.md says how to read what it prints.
package main
