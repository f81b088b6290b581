// Package unprivtest runs the tests of a program once more as a user without any
// rights, or as a root without its own, and tells of them what failed before anything else. What a test needs
// of its host, and what it does as that user, is the test's own affair.
package unprivtest
