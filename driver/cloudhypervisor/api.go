package cloudhypervisor

// The parts of Cloud Hypervisor's API that are used, as its OpenAPI document has
// them.

type vmConfig struct {
	CPUs    cpusConfig    `json:"cpus"`
	Memory  memoryConfig  `json:"memory"`
	Payload payloadConfig `json:"payload"`
	Disks   []diskConfig  `json:"disks"`
	RNG     rngConfig     `json:"rng"`
	Serial  consoleConfig `json:"serial"`
	Console consoleConfig `json:"console"`
	Vsock   vsockConfig   `json:"vsock"`
}

type cpusConfig struct {
	Boot int `json:"boot_vcpus"`
	Max  int `json:"max_vcpus"`
}

type memoryConfig struct {
	Size int64 `json:"size"`
}

type payloadConfig struct {
	Kernel     string `json:"kernel"`
	KernelArgs string `json:"cmdline"`
	Initramfs  string `json:"initramfs"`
}

type diskConfig struct {
	Path     string `json:"path"`
	ReadOnly bool   `json:"readonly"`
}

type rngConfig struct {
	Source string `json:"src"`
}

type consoleConfig struct {
	Mode string `json:"mode"`
}

type vsockConfig struct {
	CID    uint32 `json:"cid"`
	Socket string `json:"socket"`
}

type snapshotConfig struct {
	Destination string `json:"destination_url"`
}

type restoreConfig struct {
	Source string `json:"source_url"`
}

type pingAnswer struct {
	Version string `json:"version"`
}
