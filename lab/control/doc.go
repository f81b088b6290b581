// Package control finds out which verbs that an agent needs a system has: by its own
// interface and through Aether. Each fact is a yes or no that a call of this run has shown,
// and is recorded with that call. It scores nothing.
package control
