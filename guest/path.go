package guest

import "path"

// defaultPath is where commands are looked for if no environment says.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func cleanPath(name string) string { return path.Clean("/" + name) }
