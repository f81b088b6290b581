// Package channel carries many connections over one stream of bytes between a
// host and the guest service inside a sandbox: pipes, a socket pair, a
// virtio-serial port. Where connections are to be had as they are (a unix socket,
// vsock), nobody needs it. It knows neither HTTP nor what is served.
//
// # Use
//
// The guest's end, in aether-guest:
//
//	listener, err := channel.Listen(port) // waits until a host is there
//	service.Serve(listener)               // returns when the stream has ended
//
// The host's end, in a driver:
//
//	dialer, err := channel.Connect(ctx, stream) // waits until the guest answers
//	conn, err := dialer.Dial(ctx)               // what sandbox.Instance.Dial gives
//	<-dialer.Done()                             // the stream has ended
//
// Close of the stream given must end its blocked reads and writes, as it does for
// sockets, pipes and other files that the runtime polls.
//
// # Finding each other
//
// A stream may hold anything when the two meet: messages of a boot loader, the
// rest of a connection to a host that died, the middle of a frame in a guest that
// was restored from a snapshot. So the host repeats a greeting with a number of
// its own until it hears the guest repeat that number, and only then do frames
// begin. A guest that is in the middle of frames takes a greeting for a broken
// one, gives the old connections up and listens for the next greeting. Await only
// finds out that a guest is there, and leaves it listening.
//
// # Trust
//
// A guest trusts its host. A host bounds what a guest can make it hold: streams
// are opened by the host alone, their number is bounded, and each holds at most
// one window of bytes that nobody has read. Frames that make the multiplexer do
// work unasked (streams of the guest's own, pings) end the channel.
package channel
