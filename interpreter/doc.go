// Package interpreter keeps interpreters running in a sandbox and runs code in
// them: python, node, with types or without, and bash of the image, with state that
// lasts from one call to the next, streamed output and the rich values of notebooks. How a process
// comes to run in a sandbox is the business of package guest, and which sandbox
// it is that of whoever brings the client.
//
// # A context
//
// Start starts an interpreter and gives it a small program (bootstrap/), by its
// standard input: no file is written, and the command line is short. From then on
// the process reads requests from that input, which the program hides from user
// code: that one's standard input is empty. Between calls it blocks in one read,
// with no thread, socket or child of ours, so that a sandbox with an idle context
// can be forked; Attach finds the copy again in the forked sandbox.
//
// # The wire
//
// User code writes to the real standard output and error, so that children and
// native extensions stream like everybody else. Replies go in between, as pieces
// that no other writer can tear: each is at most as large as a pipe takes in one
// step, and carries the context's key, the call's nonce and its own length. A
// call begins and ends with a piece on both streams, so both are drained when it
// is over. Everything that is not exactly a piece is output, byte for byte.
//
// # Hostile code
//
// Code in an interpreter can do everything to its own process, forged pieces
// included. It can misreport its own call, and nothing else: a reply counts only
// with the nonce of the call under way, everything that is kept is bounded, and a
// call ends with its context whatever the process does.
package interpreter
