package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/engine/access"
	"aether/internal/host/storedir"
	"aether/rest"
	"aether/sandbox"
)

// serveFlags are the flags of serve, as typed.
type serveFlags struct {
	listen, drivers, tlsNames              []string
	state, socket, config, tlsCert, tlsKey string
	domain                                 string
	tlsLocal, insecure                     bool
	drain, stop, idleExit                  time.Duration
}

func serveCommand(drivers *drivers) *cobra.Command {
	f := &serveFlags{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the daemon, which holds sandboxes for many",
		Long: `Run the daemon: it holds the sandboxes of many tenants and answers at a unix socket, where
this user and root are operators, and at the addresses of --listen, where every request brings a
key (aether key create). Without TLS these must be addresses of the loopback.

SIGTERM pauses the sandboxes that were made to be kept and ends the others; the next daemon on
the same state directory resumes them. SIGHUP reads the configuration again.`,
		Example: `  aether serve
  aether serve --listen 127.0.0.1:7070 --config tenants.json
  aether serve --listen 0.0.0.0:7070 --tls-local --tls-name sandboxes.internal
  aether serve --listen 0.0.0.0:443 --tls-local --domain sandboxes.internal
  aether serve --driver cell --driver qemu`,
		Args: noArguments,
	}
	f.register(cmd, drivers)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &daemon{flags: *f, log: daemonLog(cmd.ErrOrStderr())}
		return d.run(cmd.Context(), drivers)
	}
	return cmd
}

func (f *serveFlags) register(cmd *cobra.Command, drivers *drivers) {
	flags := cmd.Flags()
	flags.StringArrayVar(&f.listen, "listen", nil, "answer at this address of TCP too, such as 127.0.0.1:7070; repeatable")
	flags.StringVar(&f.state, "state", "", "the directory that the daemon remembers in (default "+filepath.Join("STATE", "daemon")+")")
	flags.StringVar(&f.socket, "socket", "", "the path of the unix socket (default: this user's, or in the directory of --state)")
	flags.StringVar(&f.config, "config", "", "a file of JSON: what tenants may ask for and have")
	flags.StringArrayVar(&f.drivers, "driver", nil, "use this system, best first, instead of all; repeatable")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "the file of a certificate for --listen")
	flags.StringVar(&f.tlsKey, "tls-key", "", "the file of its key")
	flags.BoolVar(&f.tlsLocal, "tls-local", false, "make certificates by an authority of the state directory's own")
	flags.StringArrayVar(&f.tlsNames, "tls-name", nil, "a name or address that clients of --tls-local know this host by; repeatable")
	flags.StringVar(&f.domain, "domain", "", "the domain of E2B's clients: api.DOMAIN is this daemon, PORT-ID.DOMAIN a port of a sandbox")
	flags.BoolVar(&f.insecure, "insecure", false, "ask nobody for a key: everybody on this host is an operator")
	flags.DurationVar(&f.drain, "drain", 10*time.Second, "let requests that run come to their end for this long when stopped")
	flags.DurationVar(&f.stop, "stop-timeout", 2*time.Minute, "pause and end sandboxes for this long when stopped")
	flags.DurationVar(&f.idleExit, "idle-exit", 0, "end when there was no sandbox, template or connection for this long (default: never)")
	if err := cmd.RegisterFlagCompletionFunc("driver", cobra.FixedCompletions(drivers.Names(), cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // the flag was registered just above
	}
}

// daemonState is where this user's daemon remembers, and daemonSocket where it answers.
func daemonState() string  { return filepath.Join(storedir.Lasting(), "daemon") }
func daemonSocket() string { return filepath.Join(storedir.Running(), "daemon", "socket") }

func (f *serveFlags) stateDir() string {
	if f.state != "" {
		return f.state
	}
	return daemonState()
}

func (f *serveFlags) socketPath() string {
	switch {
	case f.socket != "":
		return f.socket
	case f.state != "":
		return filepath.Join(f.state, "socket")
	}
	return daemonSocket()
}

// validate checks what the listeners would find out too late.
func (f *serveFlags) validate() error {
	if f.idleExit < 0 {
		return sandbox.Invalidf("--idle-exit", "%v is negative", f.idleExit)
	}
	if f.domain != "" {
		if _, err := sandbox.ParseHostName(f.domain); err != nil {
			return sandbox.Invalidf("--domain", "%s", err.Error())
		}
	}
	switch secure := f.tlsLocal || f.tlsCert != ""; {
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return sandbox.Invalidf("--tls-key", "a certificate and its key are given together")
	case f.tlsLocal && f.tlsCert != "":
		return sandbox.Invalidf("--tls-local", "there is a certificate already, by --tls-cert")
	case secure && len(f.listen) == 0:
		return &sandbox.Error{Class: sandbox.Invalid, Field: "--listen", Reason: "TLS is for addresses, and none is given", Remedy: "give one, such as --listen 0.0.0.0:7070"}
	case f.insecure && secure:
		return sandbox.Invalidf("--insecure", "TLS is of no use where everybody is an operator")
	case f.insecure && len(f.listen) == 0:
		return &sandbox.Error{Class: sandbox.Invalid, Field: "--insecure", Reason: "no address is given", Remedy: "give one of the loopback, such as --listen 127.0.0.1:7070"}
	}
	return nil
}

// makers are the drivers that the daemon is to use.
func (f *serveFlags) makers(drivers *drivers) ([]sandbox.Maker, error) {
	if len(f.drivers) == 0 {
		return drivers.makers, nil
	}
	var list []sandbox.Maker
	for _, name := range f.drivers {
		name, err := drivers.canonical(name)
		if err != nil {
			return nil, err
		}
		for _, m := range drivers.makers {
			if m.Name == name {
				list = append(list, m)
			}
		}
	}
	return list, nil
}

func (f *serveFlags) access() (access.Config, error) {
	if f.config == "" {
		return access.Config{}, nil
	}
	return access.ReadConfig(f.config)
}

// tls is nil for plain connections.
func (f *serveFlags) tls(log *slog.Logger) (*tls.Config, error) {
	switch {
	case f.tlsCert != "":
		return rest.TLSFiles(f.tlsCert, f.tlsKey, log)
	case !f.tlsLocal:
		return nil, nil
	}
	config, public, err := rest.LocalAuthority(f.stateDir(), f.names())
	if err == nil {
		log.Info("clients trust this certificate", "file", public)
	}
	return config, err
}

// names are those that a certificate is for, besides the addresses that are listened at.
func (f *serveFlags) names() []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, f.tlsNames...)
	if name, err := os.Hostname(); err == nil {
		names = append(names, name)
	}
	if f.domain != "" {
		names = append(names, f.domain, "*."+f.domain)
	}
	for _, address := range f.listen {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			names = append(names, host)
		}
	}
	return names
}

// listeners opens the socket and every address, or none.
func (f *serveFlags) listeners(ctx context.Context, log *slog.Logger) (list []*rest.Listener, err error) {
	defer func() {
		if err != nil {
			for _, l := range list {
				err = errors.Join(err, l.Close())
			}
			list = nil
		}
	}()
	config, err := f.tls(log)
	if err != nil {
		return nil, err
	}
	l, err := rest.ListenUnix(ctx, f.socketPath())
	if err != nil {
		return nil, err
	}
	list = append(list, l)
	for _, address := range f.listen {
		if f.insecure {
			l, err = rest.ListenInsecure(ctx, address)
		} else {
			l, err = rest.ListenTCP(ctx, address, config)
		}
		if err != nil {
			return list, err
		}
		list = append(list, l)
	}
	return list, nil
}

// daemonLog writes lines of JSON, which is what keepers of logs read, and text to people.
func daemonLog(w io.Writer) *slog.Logger {
	if screenOf(w).width > 0 {
		return slog.New(slog.NewTextHandler(w, nil))
	}
	return slog.New(slog.NewJSONHandler(w, nil))
}

// systemsOf lists what the door answers of the drivers that an engine uses.
func systemsOf(drivers *engine.Drivers) func(context.Context) ([]rest.System, error) {
	return func(ctx context.Context) ([]rest.System, error) {
		var list []rest.System
		for _, a := range availabilities(ctx, drivers.All()) {
			list = append(list, rest.System(a))
		}
		return list, nil
	}
}
