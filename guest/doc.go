// Package guest is the service inside every sandbox: it runs commands, serves
// files, terminals and watches, and its client. How a process comes to run in a
// sandbox, and what keeps it there, is the business of a Backend.
//
// The same server runs as the init of a machine, where the sandbox's root is its
// own, and beside a cell, on the host's side of the boundary. Everything that
// the sandbox holds (its users, links, output) is hostile to the second one, so
// paths are resolved by package inroot, files are read up to a bound, and output
// that nobody takes is kept up to a bound.
//
// The wire is the one that agent clients already speak: Connect calls for
// processes and files, plain HTTP for contents. See package wire. A client in the
// same program as its service follows processes without it; see ClientFor.
package guest
