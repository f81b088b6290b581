// Package daemon is what drivers share whose sandboxes are containers of a daemon
// on this host: what they keep here, by which lock the containers of dead programs
// are known and removed, how a daemon that cannot be used is told of, and figures
// that no daemon gives. What a daemon is asked, and how, is each driver's own.
package daemon
