package image

import (
	"context"

	"aether/sandbox"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
)

// access is how a registry is asked for an image, and who may have the answer again from
// the store without asking.
type access struct {
	keys authn.Keychain
	// record is the name of the image in the store.
	record string
}

// accessTo is by the host's own logins, unless the context says on whose behalf: then it
// is by that tenant's, and what a login was needed for is that tenant's alone. What
// nobody's login was sent for is everybody's.
func accessTo(ctx context.Context, ref name.Reference) access {
	of, ok := sandbox.RegistriesOf(ctx)
	if !ok {
		return access{authn.DefaultKeychain, ref.Name()}
	}
	login, ok := of.Logins[ref.Context().RegistryStr()]
	if !ok {
		return access{noLogins{}, "anybody " + ref.Name()}
	}
	return access{oneLogin(login), "tenant " + of.Tenant + " " + ref.Name()}
}

type noLogins struct{}

// Resolve implements authn.Keychain.
func (noLogins) Resolve(authn.Resource) (authn.Authenticator, error) { return authn.Anonymous, nil }

// oneLogin is for one registry, which is the only one that is asked.
type oneLogin sandbox.Login

// Resolve implements authn.Keychain.
func (l oneLogin) Resolve(authn.Resource) (authn.Authenticator, error) {
	return &authn.Basic{Username: l.Username, Password: l.Password}, nil
}
