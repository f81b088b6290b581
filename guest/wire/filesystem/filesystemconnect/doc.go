// Package filesystemconnect is made from filesystem.proto: the client and the handler of its
// calls. What the calls do is in package guest.
package filesystemconnect
