// Package examplestest builds, runs and tests what is under examples/, which is a
// module of its own, as its readers do. It has nothing but tests.
package examplestest
