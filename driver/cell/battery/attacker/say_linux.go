package main

import (
	"bytes"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"aether/internal/host/attacktest"
)

// said reads until a text comes, and gives an error if it does not.
func said(conn net.Conn, want string) (string, error) {
	if err := conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return "", err
	}
	var all bytes.Buffer
	for buf := make([]byte, 4096); ; {
		n, err := conn.Read(buf)
		all.Write(buf[:n])
		switch {
		case strings.Contains(all.String(), want):
			return all.String(), nil
		case err != nil:
			return "", fmt.Errorf("%w after %q", err, all.String())
		case all.Len() > 64<<10:
			return "", fmt.Errorf("%d bytes and no %q", all.Len(), want)
		}
	}
}

// say connects to args[0], says args[2:], each quoted, one after the other, and wants to
// hear args[1].
func say(args []string) (string, error) {
	conn, err := net.DialTimeout("tcp", args[0], answerTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	for i, quoted := range args[2:] {
		text, err := strconv.Unquote(`"` + quoted + `"`)
		if err != nil {
			return "", err
		}
		if i > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			return "", err
		}
	}
	return said(conn, args[1])
}

// overTLS connects to args[0] with a hello for args[1], asks for the host args[2] and wants
// to hear args[3]. args[4] are the keys by which the name of the hello is hidden, or words
// that stand before it.
func overTLS(args []string) (string, error) {
	config := &tls.Config{ServerName: args[1], InsecureSkipVerify: true}
	if len(args) > 4 && args[4] == "alert" {
		return overAlert(config, args)
	}
	if len(args) > 4 {
		keys, err := hex.DecodeString(args[4])
		if err != nil {
			return "", err
		}
		config.EncryptedClientHelloConfigList = keys
		config.EncryptedClientHelloRejectionVerify = func(tls.ConnectionState) error { return nil }
	}
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: answerTime}, "tcp", args[0], config)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", args[2])
	return said(conn, args[3])
}

// overAlert says a warning before its hello, which servers ignore.
func overAlert(config *tls.Config, args []string) (string, error) {
	raw, err := net.DialTimeout("tcp", args[0], answerTime)
	if err != nil {
		return "", err
	}
	defer raw.Close()
	if _, err := raw.Write([]byte{21, 3, 1, 0, 2, 1, 90}); err != nil {
		return "", err
	}
	time.Sleep(50 * time.Millisecond)
	conn := tls.Client(raw, config)
	if err := raw.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return "", err
	}
	fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", args[2])
	return said(conn, args[3])
}

// datagram sends one to args[0] and wants it back.
func datagram(args []string) (string, error) {
	conn, err := net.Dial("udp", args[0])
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("> a datagram")); err != nil {
		return "", err
	}
	buf := make([]byte, 512)
	if err := conn.SetReadDeadline(time.Now().Add(silenceTime)); err != nil {
		return "", err
	}
	n, err := conn.Read(buf)
	return string(buf[:n]), err
}

func ping(args []string) (string, error) {
	to, err := netip.ParseAddr(args[0])
	if err != nil {
		return "", err
	}
	return "an echo of " + args[0], attacktest.Ping(to, silenceTime)
}

// form has the C library read an address as it likes, and connects to what it reads.
func form(args []string) (string, error) {
	out, err := exec.Command("getent", "ahosts", args[0]).Output()
	if err != nil {
		return "", fmt.Errorf("getent: %w", err)
	}
	addr, err := netip.ParseAddr(strings.Fields(string(out))[0])
	if err != nil {
		return "", err
	}
	return say(append([]string{netip.AddrPortFrom(addr, 80).String()}, args[1:]...))
}

func uring(args []string) (string, error) {
	to, err := netip.ParseAddrPort(args[0])
	if err != nil {
		return "", err
	}
	heard, err := attacktest.Uring(to, "GET / HTTP/1.0\r\nHost: "+args[1]+"\r\n\r\n")
	if err == nil && !strings.Contains(heard, args[2]) {
		err = fmt.Errorf("%q", heard)
	}
	return heard, err
}

// again looks a name up and connects to what it has found, until it finds what args[1]
// says.
func again(args []string) (heard string, err error) {
	for range 6 {
		var list []net.IP
		if list, err = net.LookupIP(args[0]); err != nil {
			continue
		}
		addr := net.JoinHostPort(list[0].String(), "80")
		if heard, err = say([]string{addr, args[1], "GET / HTTP/1.0\\r\\nHost: " + args[0] + "\\r\\n\\r\\n"}); err == nil {
			return heard, nil
		}
	}
	return "", err
}

// hostsFile has a file say that args[0] is at args[1], and connects to it by its name.
func hostsFile(args []string) (string, error) {
	file, err := os.OpenFile("/etc/hosts", os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0)
	if err != nil {
		return "", err
	}
	if _, err := fmt.Fprintf(file, "\n%s %s\n", args[1], args[0]); err != nil {
		return "", err
	}
	if err := file.Close(); err != nil {
		return "", err
	}
	if list, err := net.LookupHost(args[0]); err != nil || list[0] != args[1] {
		return "", fmt.Errorf("the file was not read: %v, %w", list, err)
	}
	return say([]string{args[0] + ":80", args[2], "GET / HTTP/1.0\\r\\nHost: " + args[0] + "\\r\\n\\r\\n"})
}
