// Package pid1 is what aether-guest does: it is the first process of a sandbox,
// sets up what is missing there, awaits orphans and serves the guest service to
// its host over a channel. Isolation was arranged before it started; it only
// trusts its host, and its host trusts nothing that it says.
//
// # As the init of a container
//
// Run it by flags, with its standard input and output as the channel:
//
//	aether-guest -channel stdio
//
// Give it stdin and stdout as pipes or a socket pair, join them with
// channel.Connect, and use the answer's Dial. When its input ends, it ends, and
// with it everything in its pid namespace. Package driver/guestagent does all of this
// for drivers.
//
// # As the init of a machine
//
// Put it into an initramfs as /init, with its Config as JSON in /aether.json.
// Words of the kernel's command line come after the file: aether.channel,
// aether.hostname, aether.config (another path for the file). It mounts proc, sys
// and dev, loads the modules, makes an overlay over the disk its root, mounts the
// rest, and serves. A failure is written to the console, and the machine powered
// off.
//
// # As the init of many machines
//
// With Machine.Awaits in its Config it does what does not depend on whose machine
// it is, and waits: a monitor can save the machine then (channel.Await tells when)
// and have any number go on from there. Each is given a Configuration of its own,
// once, by POST /aether/configure, which is all that is served before.
//
// # Channels
//
//	stdio        descriptors 0 and 1, multiplexed by package channel
//	virtio:NAME  the virtio-serial port of that name, multiplexed likewise; a host
//	             that goes away may come back
//	unix:/path   plain connections to a socket
//	vsock:PORT   plain connections, from the host only
//
// # Routes of its own
//
// Beside the guest service, GET /aether/files sends what was written over the disk of a
// machine, to /tmp and to /run, or all that is in the root of a container, while no
// command runs, as an archive that POST /aether/files puts into another one of the same
// disk or image, around what is mounted in a container. Only for machines, POST
// /aether/clock sets the time (RFC 3339 in the body), POST /aether/entropy mixes up to 512
// secret bytes into the kernel's random numbers, POST /aether/poweroff ends the machine,
// POST /aether/hold stops all commands before a machine is copied, POST /aether/renew gives
// the copy random numbers, a time and names of its own, POST /aether/letgo lets the commands
// go on in both, and
// POST /aether/network gives it a network device whose packets the connection carries from
// then on, until another does or POST /aether/network/leave takes the device away. SetClock,
// AddEntropy, PowerOff, Hold, Renew, LetGo, JoinNetwork, LeaveNetwork, Files, PutFiles and Configure call them.
package pid1
