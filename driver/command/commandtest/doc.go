// Package commandtest is what the tests of drivers on driver/command share: their
// TestMain, what goes wrong with a program or its service, the walls of a sandbox
// and its filter. The contract of drivers is tested by driver/drivertest.
package commandtest
