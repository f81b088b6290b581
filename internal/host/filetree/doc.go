// Package filetree reads directory trees with everything that a copy of them
// needs: owners, times, devices, links and attributes. No link is ever followed,
// so a tree that changes meanwhile cannot lead out of itself. What is done with
// the tree is not its business.
package filetree
