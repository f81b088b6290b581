// Package filesystem is made from filesystem.proto, the messages of its calls. It holds no
// behaviour.
package filesystem
