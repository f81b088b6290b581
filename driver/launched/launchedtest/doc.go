// Package launchedtest is what the tests of drivers on driver/launched share: their
// TestMain, what goes wrong with a program or its service, the walls of a sandbox
// and its filter. The contract of drivers is tested by driver/drivertest.
package launchedtest
