// Package isolationprobe is what the program aether-probe does inside a sandbox: it tries,
// with harmless arguments, what code there could reach of its host, and says what it saw as
// one JSON document. It judges nothing: whether a sighting is safe depends on the host,
// which only whoever is outside knows (lab/isolation).
//
// Everything that it does is bounded in number, size and time. Files of the kernel are
// opened for writing and never written, device nodes are never opened, and no system call is
// made with arguments that could block, end or change anything beyond the program itself.
package isolationprobe
