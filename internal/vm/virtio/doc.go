// Package virtio is the devices of a machine as its guest meets them: registers in memory
// (virtio-mmio), queues in the guest's own memory, and behind them a disk, a source of
// random numbers and sockets to the host. Every number comes from a guest that may be
// hostile and may change it while it is read: it is fetched once, and the copy is checked.
// No KVM is needed, and none is known.
package virtio
