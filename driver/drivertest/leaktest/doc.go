// Package leaktest counts what this program holds of the host, so that tests of
// drivers can tell what a sandbox has left. It makes no sandbox.
package leaktest
