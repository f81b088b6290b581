// Package local is the back end of a guest service that runs inside the sandbox
// it serves: processes are started directly, and ids and paths are this
// process's own. It isolates nothing; that was done before it started.
package local
