package access

import "aether/internal/host/sysinfo"

func available() (int64, error) { return sysinfo.Available() }
