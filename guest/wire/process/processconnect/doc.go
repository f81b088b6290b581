// Package processconnect is made from process.proto: the client and the handler of its
// calls. What the calls do is in package guest.
package processconnect
