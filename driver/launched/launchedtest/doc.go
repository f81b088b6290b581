// Package launchedtest is what the tests of drivers on driver/launched share:
// running scripts in a sandbox, looking at its walls and trying its filter. The
// contract of drivers is tested by driver/drivertest.
package launchedtest
