package pid1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"aether/guest"
	"aether/sandbox"
)

const (
	networkPath = "/aether/network"
	leavePath   = "/aether/network/leave"
	// packetsProtocol is what a connection speaks that carries packets.
	packetsProtocol = "aether-packets"
	// maxAnswer bounds what a guest says before that.
	maxAnswer = 8 << 10
)

// JoinNetwork has a machine have a network device, as network.OpenStream describes it, in
// place of the one that it had, and gives the connection by which its packets come and go. A machine that
// has this very device keeps it, with what is open, and forgets the connection before this
// one. Nothing of the answer is read but the connection's beginning: its descriptor can be
// handed on. Errors: Unsupported if its kernel has no such devices.
func JoinNetwork(ctx context.Context, dial Dial, device []byte) (net.Conn, error) {
	conn, err := dial(ctx)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	err = joinNetwork(conn, device)
	if !stop() {
		err = errors.Join(ctx.Err(), err)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("guest: %s: %w", networkPath, err), conn.Close())
	}
	return conn, nil
}

func joinNetwork(conn net.Conn, device []byte) error {
	req, err := http.NewRequest(http.MethodPost, "http://guest"+networkPath, bytes.NewReader(device))
	if err != nil {
		return err
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", packetsProtocol)
	if err := req.Write(conn); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(io.LimitReader(byByte{conn}, maxAnswer)), req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusSwitchingProtocols {
		return nil
	}
	text, err := io.ReadAll(res.Body)
	e := &sandbox.Error{Class: sandbox.Internal, Reason: fmt.Sprintf("%.60q: %.400q", res.Status, strings.TrimSpace(string(text))), Err: err}
	switch res.StatusCode {
	case http.StatusNotImplemented:
		e.Class, e.Field = sandbox.Unsupported, "network.mode"
		e.Remedy = "use a kernel with the module tun, as `aether kernel install` fetches"
	case http.StatusNotFound:
		e.Class, e.Field, e.Reason = sandbox.Unsupported, "network.mode", "the guest service is of a release without networks"
		e.Remedy = "make the sandbox anew"
	}
	return e
}

// byByte never reads more than is asked for.
type byByte struct{ from io.Reader }

// Read implements io.Reader.
func (b byByte) Read(p []byte) (int, error) { return b.from.Read(p[:min(1, len(p))]) }

// LeaveNetwork has a machine be without a network device.
func LeaveNetwork(ctx context.Context, dial Dial) error {
	return guest.Post(ctx, dial, leavePath, nil)
}
