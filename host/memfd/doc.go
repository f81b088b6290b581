// Package memfd makes files that are only in memory and have no name: whoever has
// the descriptor has the file, and nothing is left when the last one is closed.
package memfd
