// Package holder lets a program of its own keep a template and others fork it: the
// directory where templates are found, the server on a unix socket that only this
// user reaches, and its client. What a template is, and how it is forked, is the
// business of package engine.
//
// # The wire
//
// HTTP over the socket. A fork is a request that is answered with the child and
// then stays open: the child ends with it, so that no child outlives whoever asked
// for it, however that ends. The guest service of the child is reached by further
// connections, which are handed through. Both ends belong to one user; what a
// sandbox says goes through unread.
package holder
