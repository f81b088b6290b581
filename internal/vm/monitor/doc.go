// Package monitor is the process that one machine is alone in. It is given descriptors,
// and nothing else: what the machine boots from or goes on from, /dev/kvm, and two sockets,
// over which it is told what to do and handed the connections to its guest. A guest that
// breaks out of its machine is here, and can make a few system calls.
package monitor
