// Package secret keeps named values of tenants in an engine's state directory, each
// encrypted with a key that is a file of the host. Who may set, list or use a secret is the
// engine's business, and where its value is sent is that of whoever is given it.
//
// A value is opened when somebody needs it and is not kept in memory besides. What is told
// of a secret otherwise, its name, its hosts and its times, is never encrypted.
//
// # Files
//
// secret.key is 32 random bytes that its owner alone may read, made when the first value
// is set. A record of the kind "secrets" has what is told of a secret in the clear, and its
// value as AES-256-GCM under that key with a random nonce. The format, the tenant, the name
// and the hosts are authenticated with it: a file that was moved to another name or tenant,
// or whose hosts were changed, does not open.
package secret
