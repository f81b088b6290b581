// Package gvisor drives gVisor by its program runsc, whose kernel in user space
// answers the system calls of a sandbox: a kernel boundary. It writes runsc's
// configuration and keeps, restores and forks sandboxes by runsc's checkpoints;
// how runsc is started, limited and ended is in driver/command.
package gvisor
