// Package guestagent is what drivers share whose guest service runs inside their
// sandboxes, as the program aether-guest: finding that program, meeting it at the
// other end of a stream, and an Instance that keeps the lifecycle of package
// sandbox. How a sandbox is made, limited and ended is each driver's own.
//
// # Writing a driver with it
//
// A driver gives a Body: how its sandbox is ended, awaited, counted and removed.
// Create then is, with each step undone if a later one fails:
//
//	guestPath, err := guestagent.Find()              // the program to run inside
//	pipes, err := guestagent.NewPipes()              // its descriptors 0, 1 and 2
//	... start the sandbox with guestPath as its first process, -channel stdio,
//	    and pipes.Child() as its files, then pipes.Started()
//	dialer, err := pipes.Join(ctx, settings)     // waits until the service answers
//	instance := guestagent.New(name, id, spec, body, dialer)
//	driver.fleet.Add(instance)
//
// A machine that is reached by a socket instead calls Meet with it. Drivers that
// can pause embed *Instance in a type of their own and use Instance.SetPaused.
// Fleet keeps the living instances for Driver.Close.
package guestagent
