// Package oci drives OCI runtimes by the bundle that all of them read: runc, crun
// and youki. It writes the configuration (namespaces, mounts, capabilities, system
// call filter); how the runtime is started, limited and ended is in
// driver/command. It knows no images and pulls none.
package oci
