package sandbox

import "context"

// Registries is on whose behalf images are fetched, and with which logins. Who fetches
// without one, as the user of a command line does, has those of the host's own tools.
type Registries struct {
	// Tenant is whose logins they are: what is fetched with one is for that tenant alone.
	Tenant string
	// Logins are by registry, as "ghcr.io". Others are asked without any.
	Logins map[string]Login
}

// Login is a name and a secret that a registry knows.
type Login struct {
	Username string
	Password string
}

type registriesKey struct{}

// WithRegistries has every image that a driver needs for a call be fetched so.
func WithRegistries(ctx context.Context, r Registries) context.Context {
	return context.WithValue(ctx, registriesKey{}, r)
}

// RegistriesOf is what the context has.
func RegistriesOf(ctx context.Context) (r Registries, ok bool) {
	r, ok = ctx.Value(registriesKey{}).(Registries)
	return r, ok
}
