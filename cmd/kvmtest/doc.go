// Command kvmtest runs the tests of a driver that needs KVM on a machine whose own
// KVM is missing or incomplete: it boots an emulated machine whose processor has
// nested virtualization, in which a real /dev/kvm appears, and runs the driver's
// test binary there. Times inside mean nothing; whether tests pass does. Nothing of
// the product depends on it.
//
//	go run ./cmd/kvmtest -driver qemu-kvm
//	go run ./cmd/kvmtest -driver firecracker -binary /path/to/firecracker -jailer /path/to/jailer
//	go run ./cmd/kvmtest -driver aethervm -whole
//
// With -compare it measures our own monitor beside Firecracker there, for ratios of times
// mean something:
//
//	go run ./cmd/kvmtest -compare -binary /path/to/firecracker
//	go run ./cmd/kvmtest -crowds 20
package main
