// Package daemontest is what the tests of drivers on driver/daemon share: daemons
// of their own, daemons that cannot be used, and programs that are killed. The
// contract of drivers is tested by driver/drivertest.
package daemontest
