package guestagent

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"

	"aether/guest/pid1"
	"aether/network"
	"aether/sandbox"
)

// Settle has the programs of a sandbox find and believe its gateway, once the files of the
// sandbox are there and before anything runs in it. Nil is a sandbox on no network.
func Settle(ctx context.Context, a *network.Attached, dial pid1.Dial, log *slog.Logger) error {
	if a == nil {
		return nil
	}
	// What goes on from the memory of another has the file, and may have a service that asks
	// for a token.
	if now, err := pid1.ReadFile(ctx, dial, resolvFile); err != nil || string(now) != resolvText {
		if err := SetNameServer(ctx, dial); err != nil {
			return err
		}
	}
	return Trust(ctx, a, Inside(dial), log)
}

// Own is how files of a sandbox are read and written on behalf of its owner.
type Own interface {
	ReadFile(ctx context.Context, name string) ([]byte, error)
	WriteFile(ctx context.Context, name string, contents []byte) error
}

// Inside is Own by the guest service that a function connects to.
type Inside pid1.Dial

// ReadFile implements Own.
func (dial Inside) ReadFile(ctx context.Context, name string) ([]byte, error) {
	return pid1.ReadFile(ctx, pid1.Dial(dial), name)
}

// WriteFile implements Own.
func (dial Inside) WriteFile(ctx context.Context, name string, contents []byte) error {
	return pid1.WriteFile(ctx, pid1.Dial(dial), name, contents)
}

// Trust has the programs of a sandbox believe its gateway, if rules are about its requests:
// now, and whenever the gateway has another certificate. What becomes of those is logged,
// for nobody waits for it. Nil is a sandbox on no network.
func Trust(ctx context.Context, a *network.Attached, files Own, log *slog.Logger) error {
	if a == nil {
		return nil
	}
	// One at a time, so that the last one stays; also if the sandbox is paused meanwhile,
	// which they wait for.
	var turn sync.Mutex
	write := func(ctx context.Context) error {
		turn.Lock()
		defer turn.Unlock()
		certificate := a.Authority()
		if certificate == nil {
			return nil
		}
		bundle := network.TrustBundle(certificate, func(name string) ([]byte, error) { return files.ReadFile(ctx, name) })
		return files.WriteFile(ctx, network.TrustFile, bundle)
	}
	a.OnTrust(func([]byte) {
		if err := write(context.Background()); err != nil {
			cmp.Or(log, slog.Default()).Warn("network: programs of a sandbox will not believe its gateway", "err", err)
		}
	})
	return write(ctx)
}

// On puts below the settings of an image what the programs of a sandbox on a network need
// to believe its gateway. Errors: those of the policy.
func (s Settings) On(ctx context.Context, service *network.Service, n sandbox.Network) (Settings, error) {
	env, err := service.TrustEnv(ctx, n)
	if len(env) > 0 {
		maps.Copy(env, s.Env)
		s.Env = env
	}
	return s, err
}
