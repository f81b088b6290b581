package docker

// The parts of the daemon's API that are used, by its own names.

// info is what a daemon says of itself and of its host.
type info struct {
	OSType, ServerVersion                             string
	Runtimes                                          map[string]struct{}
	MemTotal                                          int64
	MemoryLimit, PidsLimit, CPUCfsPeriod, CPUCfsQuota bool
	SecurityOptions                                   []string
}

// configuration is what a container is made of.
type configuration struct {
	Image, Hostname, User, WorkingDir, StopSignal                 string
	Entrypoint                                                    []string
	OpenStdin, StdinOnce, AttachStdin, AttachStdout, AttachStderr bool
	Labels                                                        map[string]string
	HostConfig                                                    hostConfig
}

// hostConfig is what the host does for a container.
type hostConfig struct {
	Runtime                            string `json:",omitempty"`
	Memory, MemorySwap                 int64
	CPUPeriod                          int64  `json:"CpuPeriod"`
	CPUQuota                           int64  `json:"CpuQuota"`
	PidsLimit                          *int64 `json:",omitempty"`
	Mounts                             []mount
	Init                               *bool
	NetworkMode, IpcMode, CgroupnsMode string
	CapDrop, CapAdd, SecurityOpt       []string
	DNS                                []string `json:"Dns,omitempty"`
	DNSSearch                          []string `json:"DnsSearch,omitempty"`
	LogConfig                          logConfig
	ShmSize                            int64
	StorageOpt                         map[string]string `json:",omitempty"`
}

type logConfig struct{ Type string }

type mount struct {
	Type, Source, Target string
	ReadOnly             bool         `json:",omitempty"`
	BindOptions          *bindOptions `json:",omitempty"`
}

type bindOptions struct {
	Propagation            string `json:",omitempty"`
	NonRecursive           bool   `json:",omitempty"`
	ReadOnlyForceRecursive bool   `json:",omitempty"`
}

// state is that of a container's first process.
type state struct {
	Pid, ExitCode int
	OOMKilled     bool
	Error         string
}

// usage is what a container uses.
type usage struct {
	Memory struct {
		Usage uint64 `json:"usage"`
		Max   uint64 `json:"max_usage"`
	} `json:"memory_stats"`
	Pids struct {
		Current uint64 `json:"current"`
	} `json:"pids_stats"`
	CPU struct {
		Usage struct {
			Total uint64 `json:"total_usage"`
		} `json:"cpu_usage"`
	} `json:"cpu_stats"`
}
