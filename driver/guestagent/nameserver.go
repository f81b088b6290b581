package guestagent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"aether/guest"
	"aether/sandbox"
)

const (
	resolvFile = "/etc/resolv.conf"
	resolvText = "nameserver " + sandbox.Gateway + "\n"
)

// SetNameServer has programs of a sandbox of the egress mode ask its gateway for names,
// whatever its image says. The service inside writes the file, so that no link of an
// image leads anywhere else: as root, or as the one user that there is.
func SetNameServer(ctx context.Context, dial func(context.Context) (net.Conn, error)) error {
	var errs []error
	for _, user := range []string{"root", ""} {
		client := guest.NewClient(dial, guest.ClientOptions{User: user})
		err := setNameServer(ctx, client)
		client.Close()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", resolvFile, ctx.Err()) // and not that there is no root
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("%s: %w", resolvFile, errors.Join(errs...))
}

func setNameServer(ctx context.Context, client *guest.Client) error {
	if now, err := client.Read(ctx, resolvFile); err == nil {
		text, err := io.ReadAll(io.LimitReader(now, int64(len(resolvText)+1)))
		if err = errors.Join(err, now.Close()); err == nil && string(text) == resolvText {
			return nil
		}
	}
	if err := client.Remove(ctx, resolvFile); err != nil && sandbox.ClassOf(err) != sandbox.NotFound {
		return err
	}
	return client.Write(ctx, resolvFile, strings.NewReader(resolvText))
}
