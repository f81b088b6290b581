package command

// Capabilities are what the guest service needs to run commands and keep files of
// any user of the sandbox, and to find (SYS_PTRACE: in /proc) what a command has
// started. They reach no further than its user namespace, where it has one of its
// own. With a single id it needs none.
var Capabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_PTRACE"}

// GuestPath is where the guest service's program is best shown inside: among the
// devices, where no image has files.
const GuestPath = "/dev/.aether-guest"

// GuestArgs are the program inside and its arguments.
var GuestArgs = []string{GuestPath, "-channel", "stdio"}
