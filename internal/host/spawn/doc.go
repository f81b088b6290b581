// Package spawn starts processes from scripts: lists of system calls that
// ordinary Go builds as data and that a cloned child walks, up to execve,
// without running a single instruction of Go. It knows the mechanism only; what
// a sandbox's script says is the drivers' business.
//
// Why not os/exec: between clone and exec Go offers a fixed menu (chroot,
// credentials, a few namespaces). Everything else has to be done by executing a
// Go binary again inside the sandbox, which costs more than a millisecond and
// shows that binary to hostile code. A script costs the system calls it makes.
//
// The child shares the parent's memory (CLONE_VM) and touches none of it but
// the script: it has no Go stack, heap or scheduler. Errors come back through
// the script's memory as the step and the errno.
package spawn
