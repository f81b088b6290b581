package firecracker

// The parts of Firecracker's API that are used, as its OpenAPI document has them.

type machineConfig struct {
	CPUs      int   `json:"vcpu_count"`
	MemoryMiB int64 `json:"mem_size_mib"`
}

type bootSource struct {
	Kernel     string `json:"kernel_image_path"`
	Initramfs  string `json:"initrd_path"`
	KernelArgs string `json:"boot_args"`
}

type drive struct {
	ID       string `json:"drive_id"`
	Path     string `json:"path_on_host"`
	Root     bool   `json:"is_root_device"`
	ReadOnly bool   `json:"is_read_only"`
}

type vsock struct {
	CID  uint32 `json:"guest_cid"`
	Path string `json:"uds_path"`
}

type entropy struct{}

type action struct {
	Type string `json:"action_type"`
}

type vmState struct {
	State string `json:"state"`
}

type snapshotCreate struct {
	Type   string `json:"snapshot_type"`
	State  string `json:"snapshot_path"`
	Memory string `json:"mem_file_path"`
}

type snapshotLoad struct {
	State  string        `json:"snapshot_path"`
	Memory memoryBackend `json:"mem_backend"`
	Resume bool          `json:"resume_vm"`
}

type memoryBackend struct {
	Type string `json:"backend_type"`
	Path string `json:"backend_path"`
}

type versionAnswer struct {
	Version string `json:"firecracker_version"`
}

type fault struct {
	Message string `json:"fault_message"`
}
