package lab

// Host is what figures depend on besides what is measured.
type Host struct {
	Kernel    string `json:"kernel"`
	Arch      string `json:"arch"`
	Cores     int    `json:"cores"`
	MemoryMiB int64  `json:"memory_mib"`
	User      string `json:"user"`
	// CPU is the processors' name, and Virtualized whether a hypervisor gives them.
	CPU         string  `json:"cpu,omitempty"`
	Virtualized bool    `json:"virtualized"`
	LoadBefore  float64 `json:"load_before"`
	LoadAfter   float64 `json:"load_after"`
	StartedUnix int64   `json:"started_unix"`
}
