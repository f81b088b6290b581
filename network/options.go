package network

import (
	"log/slog"

	"aether/network/policy"
)

// Options are for all sandboxes of a service.
type Options struct {
	// Lists are those that policies name.
	Lists policy.Lists
	// Roots are the certificates, in PEM, of the authorities by which hosts are believed
	// whose TLS ends in a gateway. Nil means those of this host.
	Roots  []byte
	Logger *slog.Logger
}
