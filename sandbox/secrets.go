package sandbox

import "context"

// Secrets give the value of a secret by its name, and the hosts that it may be sent to, as
// api.example.com or *.example.com: all, if there are none. Errors: NotFound.
type Secrets func(name string) (value string, hosts []string, err error)

type secretsKey struct{}

// WithSecrets gives whoever makes a sandbox, or changes its network, the secrets that the
// rules of its Network may name. A Spec has their names alone: it is kept, shown and sent.
func WithSecrets(ctx context.Context, secrets Secrets) context.Context {
	return context.WithValue(ctx, secretsKey{}, secrets)
}

// SecretsOf are those that a context was given, or nil.
func SecretsOf(ctx context.Context) Secrets {
	secrets, _ := ctx.Value(secretsKey{}).(Secrets)
	return secrets
}
