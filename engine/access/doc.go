// Package access decides who may do what with an engine, and how much of it: keys
// and the callers behind them, what a tenant may ask of a sandbox, quotas, admission
// by the host's memory, the file in which an operator writes all that down, and the
// audit trail. What sandboxes are and how callers reach the engine is not its
// business.
//
// A tenant names nothing of the host. Whatever a Spec can say is refused to tenants
// unless a rule for that very field allows it: see Allow.
package access
