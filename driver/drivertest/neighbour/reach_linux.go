package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"
)

// Times that a probe of the network waits for an answer, and for none. One by a datagram is
// asked for again meanwhile, askTimes all in all: datagrams may be lost.
const (
	answerTime  = time.Minute
	silenceTime = time.Second
	askTimes    = 6
)

// probes of the network, each with its arguments, say in one line what they saw.
var probes = map[string]func(args []string) string{
	"tcp": tcp, "udp": udp, "hush": hush, "name": name, "hold": hold, "listen": listen, "address": address, "https": https,
}

// probe runs one, if this program was started for that.
func probe(args []string) bool {
	if len(args) == 0 || probes[args[0]] == nil {
		return false
	}
	fmt.Println(probes[args[0]](args[1:]))
	return true
}

// silence is what is seen of who does not answer.
const silence = "silence"

// seen says what became of a connection.
func seen(err error) string {
	var timeout net.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return "refused"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNABORTED):
		return "cut"
	case errors.As(err, &timeout) && timeout.Timeout():
		return silence
	}
	return "error: " + err.Error()
}

// tcp sends a text to an address and wants it back.
func tcp(args []string) string {
	conn, err := net.DialTimeout("tcp", args[0], answerTime)
	if err != nil {
		return seen(err)
	}
	defer conn.Close()
	return echo(conn, args[1:], answerTime)
}

// udp does so by a datagram.
func udp(args []string) (said string) {
	for range askTimes {
		if said = datagram(args, answerTime/askTimes); said != silence {
			break
		}
	}
	return said
}

// hush is udp where no answer is to come.
func hush(args []string) string { return datagram(args, silenceTime) }

func datagram(args []string, within time.Duration) string {
	conn, err := net.Dial("udp", args[0])
	if err != nil {
		return seen(err)
	}
	defer conn.Close()
	return echo(conn, args[1:], within)
}

// mark keeps what is sent from being taken for a request of HTTP, which gateways read.
const mark = "> "

func echo(conn net.Conn, words []string, within time.Duration) string {
	text := []byte(mark + strings.Join(words, " "))
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return seen(err)
	}
	if _, err := conn.Write(text); err != nil {
		return seen(err)
	}
	back := make([]byte, len(text))
	if _, err := io.ReadFull(conn, back); err != nil {
		return seen(err)
	}
	return "said " + strings.TrimPrefix(string(back), mark)
}

// name asks the name server of the sandbox, which must be one, for a name.
func name(args []string) string {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return seen(err)
	}
	var servers []string
	for line := range strings.Lines(string(text)) {
		if server, ok := strings.CutPrefix(strings.TrimSpace(line), "nameserver "); ok {
			servers = append(servers, server)
		}
	}
	if len(servers) != 1 {
		return fmt.Sprintf("%q has not one name server", text)
	}
	said := ""
	for range askTimes {
		answer, err := ask(net.JoinHostPort(servers[0], "53"), args[0])
		if err == nil {
			return read(answer)
		}
		if said = seen(err); said != silence {
			break
		}
	}
	return said
}

// Parts of a message of the DNS.
const (
	headSize  = 12
	noName    = 3                  // an answer's code
	addresses = "\x00\x01\x00\x01" // type A of the Internet
	// answerSize is that of an answer with an address, whose name is two bytes that refer
	// to the question.
	answerSize = 16
)

// ask asks one question, past whatever files of the sandbox say about names.
func ask(server, name string) ([]byte, error) {
	question := []byte{0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0}
	for label := range strings.SplitSeq(strings.TrimSuffix(name, "."), ".") {
		question = append(append(question, byte(len(label))), label...)
	}
	question = append(append(question, 0), addresses...)
	conn, err := net.Dial("udp", server)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime / askTimes)); err != nil {
		return nil, err
	}
	if _, err := conn.Write(question); err != nil {
		return nil, err
	}
	answer := make([]byte, 1024)
	n, err := conn.Read(answer)
	if err == nil && n < len(question) {
		err = io.ErrUnexpectedEOF
	}
	return answer[:n], err
}

// read says what an answer does, whose last part is an address if it has one.
func read(answer []byte) string {
	code, count := answer[3]&15, answer[7]
	switch {
	case code == noName:
		return "no such name"
	case code != 0 || count != 1 || len(answer) < headSize+answerSize:
		return fmt.Sprintf("code %d, %d answers in %d bytes", code, count, len(answer))
	}
	return "at " + net.IP(answer[len(answer)-4:]).String()
}

// https asks a host for a path over TLS, which it believes by what its environment says.
func https(args []string) string {
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: answerTime}}
	conn, err := dialer.Dial("tcp", net.JoinHostPort(args[0], "443"))
	if err != nil {
		return seen(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
		return seen(err)
	}
	fmt.Fprintf(conn, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", args[1], args[0])
	answer, err := io.ReadAll(conn)
	if err != nil {
		return seen(err)
	}
	head, body, _ := strings.Cut(string(answer), "\r\n\r\n")
	status, _, _ := strings.Cut(head, "\r\n")
	_, code, _ := strings.Cut(status, " ")
	return code + ": " + body
}

// hold keeps a connection, says that it has one, and then how it ended.
func hold(args []string) string {
	conn, err := net.DialTimeout("tcp", args[0], answerTime)
	if err != nil {
		return seen(err)
	}
	defer conn.Close()
	fmt.Println(echo(conn, []string{"held"}, answerTime))
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return seen(err)
	}
	_, err = conn.Read(make([]byte, 1))
	return seen(err)
}

// address says which the sandbox has.
func address([]string) string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return seen(err)
	}
	var own []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			own = append(own, n.IP.String())
		}
	}
	return strings.Join(own, " ")
}

// listen waits for connections to a port of the sandbox, and says when there is one.
func listen(args []string) string {
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return seen(err)
	}
	fmt.Println("listens")
	if _, err := l.Accept(); err != nil {
		return seen(err)
	}
	return "reached"
}
