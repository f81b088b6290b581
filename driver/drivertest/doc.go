// Package drivertest is the one conformance suite of all drivers: it holds every
// promise of package sandbox against a driver, through that contract and
// guest.Client alone. What only one driver promises is tested beside it.
//
// # Use
//
// A driver's tests have a TestMain and one test:
//
//	func newDriver(dir string) sandbox.Driver { return mydriver.New(mydriver.Options{RunDir: dir, ...}) }
//
//	func TestMain(m *testing.M) { os.Exit(drivertest.Main(m, newDriver)) }
//
//	func TestConformance(t *testing.T) {
//		drivertest.Run(t, drivertest.Config{New: newDriver})
//	}
//
// Main is needed because one promise is about programs that are killed: the test
// binary is started again, plays such a program and is killed. A TestMain that
// has more to do calls Play first.
//
// Every promise is a subtest, so that one can run it alone:
//
//	go test ./driver/mydriver -run 'TestConformance/limits/memory'
//
// # Skips
//
// A verb that the driver does not implement (Pauser, Snapshotter, Restorer,
// Forker, Closer, Reaper) has no subtest. A limit or mount that the driver
// refuses on this host, as Unsupported or Unavailable, is skipped with the
// driver's own words. What sandboxes of a system cannot be kept from doing to each other
// is declared (Config.Weaknesses) and must then be so. Nothing else is left out: a slow driver has the same
// subtests with fewer sandboxes and longer waits, by Config.Pace.
package drivertest
