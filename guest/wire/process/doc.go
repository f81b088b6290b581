// Package process is made from process.proto, the messages of its calls. It holds no
// behaviour.
package process
