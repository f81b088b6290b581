package access

// Caller is on whose behalf a method of the engine is called. A door finds out who it
// is; the engine decides what it may.
type Caller struct {
	// Tenant owns what the call makes. It is a name: see sandbox.IsName.
	Tenant string
	// Operator sees and changes what is of any tenant.
	Operator bool
	// Name is who it is in the audit trail: the id of a key, or a user of the host.
	Name string
}
