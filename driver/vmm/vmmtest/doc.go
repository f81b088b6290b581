// Package vmmtest is what the tests of monitors' drivers share: replays of what a
// monitor is told, monitors that answer badly, and the suite on real machines. It
// holds no test of its own.
package vmmtest
