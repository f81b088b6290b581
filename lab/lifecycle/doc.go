// Package lifecycle measures the life of sandboxes on this host: cells beside bwrap,
// crun and runc, with the same namespaces and the same root. Cold spawn, exec, idle
// memory and churn, against the targets that cells are held to. How anything is
// measured is package lab's.
package lifecycle
