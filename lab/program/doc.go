// Package program measures whole runs of the built program, from the start of its
// process to its end, as somebody at a terminal waits for them: beside an empty Go
// program and beside bwrap, with what the initialisation of its packages costs. How
// anything is measured is package lab's.
package program
