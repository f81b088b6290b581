// Command aether-guest is the first process of sandboxes that have a service
// inside: the init of a machine or of a container. What it does is in package
// pid1; here are its flags.
package main
