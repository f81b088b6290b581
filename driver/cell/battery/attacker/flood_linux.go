package main

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"aether/internal/host/attacktest"
)

// floodTime is how long one lasts at most, and settle how long what it holds is held.
const (
	floodTime = 1500 * time.Millisecond
	settle    = 300 * time.Millisecond
)

// target is the address of a name, or an address, with a port, and a count.
func target(args []string) (to netip.AddrPort, count int, err error) {
	addr, err := net.ResolveTCPAddr("tcp4", args[0])
	if err != nil {
		return to, 0, err
	}
	if count, err = strconv.Atoi(args[1]); err != nil {
		return to, 0, err
	}
	port := addr.AddrPort()
	return netip.AddrPortFrom(port.Addr().Unmap(), port.Port()), count, nil
}

// begin begins connections without end, to hosts that never answer too, and forgets them.
func begin(args []string) (string, error) {
	to, count, err := target(args)
	if err != nil {
		return "", err
	}
	begun := 0
	var held []int
	for end := time.Now().Add(floodTime); begun < count && time.Now().Before(end); begun++ {
		at := to
		if begun%2 == 0 { // nobody
			at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{93, 185, byte(begun >> 8), byte(begun)}), to.Port())
		}
		fd, err := attacktest.Begin(at, 0)
		if err != nil {
			continue
		}
		if held = append(held, fd); len(held) > 500 {
			attacktest.Close(held[0])
			held = held[1:]
		}
	}
	time.Sleep(settle)
	return fmt.Sprintf("%d begun", begun), nil
}

// connections holds as many as it is given. However slow the host is, it goes on until it has
// args[2].
func connections(args []string) (string, error) { return occupy(args, 0) }

// windows holds as many, each of which takes next to nothing of what a host sends.
func windows(args []string) (string, error) { return occupy(args, 256) }

func occupy(args []string, window int) (string, error) {
	to, count, err := target(args)
	if err != nil {
		return "", err
	}
	least := 0
	if len(args) > 2 {
		if least, err = strconv.Atoi(args[2]); err != nil {
			return "", err
		}
	}
	var all []int
	began := time.Now()
	more := func(made int) bool {
		took := time.Since(began)
		return made < count && (took < floodTime || made < least && took < patientTime)
	}
	for more(connected(all)) {
		batch := beginBatch(to, 64, window)
		for range 20 { // until they are made, or refused
			time.Sleep(5 * time.Millisecond)
			if connected(batch) == len(batch) {
				break
			}
		}
		all = append(all, batch...)
	}
	time.Sleep(settle)
	return strconv.Itoa(connected(all)), nil
}

// beginBatch begins connections, which are held as long as this program runs.
func beginBatch(to netip.AddrPort, count, window int) (batch []int) {
	for range count {
		if fd, err := attacktest.Begin(to, window); err == nil {
			batch = append(batch, fd)
		}
	}
	return batch
}

func connected(batch []int) (n int) {
	for _, fd := range batch {
		if attacktest.Connected(fd) {
			n++
		}
	}
	return n
}

// fragments sends datagrams that are longer than a packet can be, and wants one back.
func fragments(args []string) (string, error) {
	to, count, err := target(args)
	if err != nil {
		return "", err
	}
	conn, err := net.Dial("udp", to.String())
	if err != nil {
		return "", err
	}
	defer conn.Close()
	sent, long := 0, make([]byte, 65507)
	for end := time.Now().Add(floodTime); sent < count && time.Now().Before(end); sent++ {
		if _, err := conn.Write(long); err != nil && sent == 0 {
			return "", err
		}
	}
	if err := conn.SetReadDeadline(time.Now().Add(silenceTime)); err != nil {
		return "", err
	}
	if _, err := conn.Read(long); err != nil {
		return "", fmt.Errorf("%d sent: %w", sent, err)
	}
	return fmt.Sprintf("%d sent", sent), nil
}
