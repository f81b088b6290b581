package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/internal/bounded"
	"aether/rest"
	"aether/sandbox"
)

// Where the daemon is that commands ask, and who asks. Without a URL it is this user's,
// by its socket.
const (
	urlVariable       = "AETHER_URL"
	keyVariable       = "AETHER_KEY"
	authorityVariable = "AETHER_CA"
)

// maxAuthority bounds the file of trusted certificates.
const maxAuthority = 1 << 20

// withDaemon asks the daemon. Where none is named and none of this user's runs, one is
// started that ends when nothing is left in it.
func withDaemon(cmd *cobra.Command, do func(context.Context, *rest.Client) error) error {
	client, err := openDaemon(cmd.Context())
	if err != nil {
		return err
	}
	defer client.Close()
	return advised(do(cmd.Context(), client))
}

// advised says where to look for what does not exist.
func advised(err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Class != sandbox.NotFound || e.Remedy != "" {
		return err
	}
	told := *e
	switch {
	case strings.Contains(e.Reason, "no snapshot"):
		told.Remedy = "see aether snapshot list"
	case strings.Contains(e.Reason, "no secret"):
		told.Remedy = "see aether secret list"
	case strings.Contains(e.Reason, "sandbox"):
		told.Remedy = "see aether list --all"
	default:
		return err
	}
	return &told
}

func openDaemon(ctx context.Context) (*rest.Client, error) {
	client, err := daemonClient()
	if err != nil || os.Getenv(urlVariable) != "" {
		return client, err
	}
	if err := ensureDaemon(ctx, client); err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

// daemonClient is a client of the daemon that the environment names, or of this user's.
func daemonClient() (*rest.Client, error) {
	opts := rest.ClientOptions{URL: os.Getenv(urlVariable), Key: os.Getenv(keyVariable)}
	if opts.URL == "" {
		return rest.NewClient(rest.ClientOptions{URL: "unix://" + daemonSocket()})
	}
	if file := os.Getenv(authorityVariable); file != "" {
		var err error
		if opts.Authorities, err = readAuthorities(file); err != nil {
			return nil, err
		}
	}
	client, err := rest.NewClient(opts)
	if sandbox.ClassOf(err) == sandbox.Invalid {
		err = &sandbox.Error{Class: sandbox.Invalid, Field: urlVariable, Err: err}
	}
	return client, err
}

func readAuthorities(file string) (*x509.CertPool, error) {
	text, err := bounded.ReadFile(file, maxAuthority)
	if err != nil {
		return nil, &sandbox.Error{Class: sandbox.Invalid, Field: authorityVariable, Err: err}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, sandbox.Invalidf(authorityVariable, "%s has no certificate", file)
	}
	return pool, nil
}

// completionTime is how long a shell may wait for ids. Tests have more time.
var completionTime = 500 * time.Millisecond

// askForCompletion asks a daemon that runs, and says nothing where there is none.
func askForCompletion(cmd *cobra.Command, ask func(context.Context, *rest.Client) ([]cobra.Completion, error)) []cobra.Completion {
	ctx, cancel := context.WithTimeout(cmd.Context(), completionTime)
	defer cancel()
	client, err := daemonClient()
	if err != nil {
		return nil
	}
	defer client.Close()
	list, err := ask(ctx, client)
	if err != nil {
		return nil
	}
	return list
}
