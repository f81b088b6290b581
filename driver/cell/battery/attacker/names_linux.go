package main

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// question asks for the addresses of a name, whose labels are bytes as they are.
func question(kind byte, labels ...string) []byte {
	q := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for _, label := range labels {
		q = append(append(q, byte(len(label))), label...)
	}
	return append(q, 0, 0, kind, 0, 1)
}

// addressIn is the address of version 4 in an answer to a question, which is its last part.
func addressIn(answer []byte) (net.IP, error) {
	if len(answer) < 28 || answer[3]&15 != 0 || answer[7] == 0 {
		return nil, fmt.Errorf("code %d, %d answers", answer[3]&15, answer[7])
	}
	return net.IP(answer[len(answer)-4:]), nil
}

// servers are those of the sandbox, or of args.
func servers(more []string) (list []string) {
	text, _ := os.ReadFile("/etc/resolv.conf")
	for line := range strings.Lines(string(text)) {
		if server, ok := strings.CutPrefix(strings.TrimSpace(line), "nameserver "); ok {
			list = append(list, net.JoinHostPort(server, "53"))
		}
	}
	return append(list, more...)
}

func exchange(network, server string, q []byte) ([]byte, error) {
	conn, err := net.DialTimeout(network, server, answerTime)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return nil, err
	}
	if network == "udp" {
		if _, err := conn.Write(q); err != nil {
			return nil, err
		}
		answer := make([]byte, 4096)
		n, err := conn.Read(answer)
		return answer[:n], err
	}
	return stream(conn, q)
}

// stream asks by a connection.
func stream(conn io.ReadWriter, q []byte) ([]byte, error) {
	if _, err := conn.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(q))), q...)); err != nil {
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	answer := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, answer)
	return answer, err
}

// askName asks for a name, whose labels are args[0] with "|" between them, quoted, by both
// protocols, the sandbox's server and those of args[1:].
func askName(args []string) (string, error) {
	text, err := strconv.Unquote(`"` + args[0] + `"`)
	if err != nil {
		return "", err
	}
	var errs []error
	for _, server := range servers(args[1:]) {
		for _, network := range []string{"udp", "tcp"} {
			for _, kind := range []byte{16, 28, 65, 1} { // TXT, AAAA, HTTPS, A
				answer, err := exchange(network, server, question(kind, strings.Split(text, "|")...))
				if err != nil {
					errs = append(errs, err)
					break
				}
				if ip, err := addressIn(answer); err == nil {
					return ip.String(), nil
				} else if kind == 1 {
					errs = append(errs, err)
				}
			}
		}
	}
	return "", errors.Join(errs...)
}

// askMany asks for args[0] names below args[1], as fast as it can.
func askMany(args []string) (string, error) {
	count, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	found := 0
	for part := range 10 {
		work.Go(func() {
			for i := range count / 10 {
				label := fmt.Sprintf("part%d-%d", part, i)
				answer, err := exchange("udp", servers(nil)[0], question(1, append([]string{label}, strings.Split(args[1], ".")...)...))
				if err != nil {
					continue
				}
				if _, err := addressIn(answer); err == nil {
					mu.Lock()
					found++
					mu.Unlock()
				}
			}
		})
	}
	work.Wait()
	return fmt.Sprintf("%d names", found), nil
}

// overHTTPS asks a server of names over HTTPS, args[0], for args[1], and connects to what it
// says.
func overHTTPS(args []string) (string, error) {
	client := &http.Client{Timeout: answerTime, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	q := base64.RawURLEncoding.EncodeToString(question(1, strings.Split(args[1], ".")...))
	res, err := client.Get("https://" + args[0] + "/dns-query?dns=" + q)
	if err != nil {
		return "", fmt.Errorf("unanswered: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return "", fmt.Errorf("unanswered: %w", err)
	}
	return follow(answer, args)
}

// overTLSNames asks one over TLS.
func overTLSNames(args []string) (string, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: answerTime}, "tcp", args[0]+":853", &tls.Config{ServerName: args[0], InsecureSkipVerify: true})
	if err != nil {
		return "", fmt.Errorf("unanswered: %w", err)
	}
	defer conn.Close()
	answer, err := stream(conn, question(1, strings.Split(args[1], ".")...))
	if err != nil {
		return "", fmt.Errorf("unanswered: %w", err)
	}
	return follow(answer, args)
}

func follow(answer []byte, args []string) (string, error) {
	ip, err := addressIn(bytes.Clone(answer))
	if err != nil {
		return "", fmt.Errorf("unanswered: %w", err)
	}
	heard, err := overTLS([]string{net.JoinHostPort(ip.String(), "443"), args[1], args[1], args[2]})
	if err != nil {
		return "", fmt.Errorf("answered %s: %w", ip, err)
	}
	return heard, nil
}
