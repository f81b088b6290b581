// Package wire holds the definition of the guest service's wire: the protobuf
// files and the code made from them. What the calls do is in package guest.
package wire

// protoc-gen-go and protoc-gen-connect-go must be in PATH.
//go:generate protoc -I process --go_out=../.. --go_opt=module=aether --connect-go_out=../.. --connect-go_opt=module=aether process.proto
//go:generate protoc -I filesystem --go_out=../.. --go_opt=module=aether --connect-go_out=../.. --connect-go_opt=module=aether filesystem.proto
