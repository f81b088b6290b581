package network_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"aether/internal/host/launch"
	"aether/internal/host/netdev"
	"aether/network"
	"aether/sandbox"
)

// afar is a sandbox that is not on this host: this test is its end of the stream.
type afar struct {
	*testing.T
	streams chan net.Conn
	tap     netdev.Tap
}

func (a *afar) open(_ context.Context, device []byte) (*os.File, error) {
	if err := json.Unmarshal(device, &a.tap); err != nil {
		return nil, err
	}
	ours, theirs, err := launch.SocketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	conn, err := net.FileConn(theirs) // as that to a machine's monitor is
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	a.streams <- ours
	return conn.(*net.UnixConn).File()
}

// wantAnswer asks who has the gateway's address, which only a gateway answers.
func (a *afar) wantAnswer(conn net.Conn) {
	a.Helper()
	question := append([]byte{255, 255, 255, 255, 255, 255}, a.tap.Hardware[:]...)
	question = append(question, 0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1)
	question = append(append(question, a.tap.Hardware[:]...), a.tap.Address.AsSlice()...)
	question = append(append(question, make([]byte, 6)...), a.tap.Gateway.AsSlice()...)
	packet := append(make([]byte, netdev.HeaderSize), question...)
	if _, err := conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(packet))), packet...)); err != nil {
		a.Fatal(err)
	}
	answer := make([]byte, 4+len(packet))
	if _, err := io.ReadFull(conn, answer); err != nil {
		a.Fatal(err)
	}
	from, _ := netip.AddrFromSlice(answer[4+netdev.HeaderSize+28:][:4])
	if from != a.tap.Gateway {
		a.Errorf("%v answers, and not the gateway", from)
	}
}

// TestConnectStream: a sandbox elsewhere finds its gateway over the stream that it opens;
// over another when the process of the gateways is started again, and when it asks for
// one; and one that sends no packets is told why it is cut off.
func TestConnectStream(t *testing.T) {
	s := service(t)
	a := &afar{T: t, streams: make(chan net.Conn, 1)}
	attached, err := s.ConnectStream(t.Context(), sandbox.Network{Mode: sandbox.EgressNetwork}, nil, a.open)
	if err != nil {
		t.Fatal(err)
	}
	first := <-a.streams
	defer first.Close()
	a.wantAnswer(first)
	if err := attached.Mend(t.Context()); err != nil || len(a.streams) > 0 {
		t.Errorf("what is well is mended: %v", err)
	}
	processes, _ := holds(t)
	if len(processes) != 1 {
		t.Fatalf("the gateways are in the processes %v", processes)
	}
	kill(t, processes[0])
	second := <-a.streams // which nobody asked for
	defer second.Close()
	a.wantAnswer(second)
	if err := attached.Replug(t.Context()); err != nil {
		t.Fatal(err)
	}
	third := <-a.streams
	defer third.Close()
	a.wantAnswer(third)
	if _, err := second.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the stream before is open: %v", err)
	}
	if _, err := third.Write([]byte{255, 255, 255, 255}); err != nil {
		t.Fatal(err)
	}
	if _, err := third.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a stream of no packets is open: %v", err)
	}
	a.wantReason(attached, "no packet has 4294967295 bytes")
	if err := attached.Replug(t.Context()); err != nil {
		t.Fatal(err)
	}
	fourth := <-a.streams
	defer fourth.Close()
	a.wantAnswer(fourth)
	if err := attached.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := fourth.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("a sandbox that is on no network has a stream: %v", err)
	}
}

func kill(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	process, err := os.FindProcess(number)
	if err == nil {
		err = process.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// wantReason wants the log of decisions to have the words.
func (a *afar) wantReason(attached *network.Attached, words string) {
	a.Helper()
	said := func(d sandbox.NetworkDecision) bool {
		return d.Verdict == sandbox.VerdictFailed && strings.Contains(d.Reason, words)
	}
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		list, _, err := attached.Decisions(a.Context())
		switch {
		case err == nil && slices.ContainsFunc(list, said):
			return
		case err != nil || time.Now().After(end):
			a.Fatalf("nothing says %q: %+v, %v", words, list, err)
		}
	}
}
