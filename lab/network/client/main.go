// Client is what is measured inside of sandboxes, and the server that it speaks to: the
// benchmark builds it. It needs nothing but the standard library.
//
//	client serve ADDRESS   serves, and says on standard output where
//	client ask ADDRESS     does what standard input says, a line at a time, and answers
//	                       each with an amount and the nanoseconds that it took
package main

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"
)

// What a connection is for, by its first byte.
const (
	opSink   = '1' // the server reads to the end, and says how much it was
	opSource = '2' // the server writes until the connection is closed
	opEcho   = '3' // the server says every message back
)

const (
	chunk   = 256 << 10
	message = 64
	// readyTime is how long a network may take to be there.
	readyTime = 30 * time.Second
	// patience bounds any one connection beyond what it is measured for.
	patience = 30 * time.Second
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("usage: client serve|ask ADDRESS")
	}
	switch args[0] {
	case "serve":
		return serve(args[1])
	case "ask":
		return ask(args[1])
	}
	return fmt.Errorf("%q is not serve or ask", args[0])
}

func serve(address string) error {
	l, err := net.Listen("tcp4", address)
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	go func() { // whoever started this is gone then
		_, _ = io.Copy(io.Discard, os.Stdin)
		l.Close()
	}()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer conn.Close()
			_ = answer(conn) // the client sees how it ended
		}()
	}
}

func answer(conn net.Conn) error {
	var op [1]byte
	if _, err := io.ReadFull(conn, op[:]); err != nil {
		return err
	}
	buf := make([]byte, chunk)
	switch op[0] {
	case opSink:
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, buf)
		if err != nil {
			return err
		}
		return binary.Write(conn, binary.BigEndian, n)
	case opSource:
		for {
			if _, err := conn.Write(buf); err != nil {
				return err
			}
		}
	case opEcho:
		_, err := io.CopyBuffer(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}, buf[:message])
		return err
	}
	return fmt.Errorf("%q is no operation", op)
}

// ask does what it is told, once the server is reached.
func ask(address string) error {
	if err := await(address); err != nil {
		return err
	}
	fmt.Println("ready")
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var what string
		var during time.Duration
		if _, err := fmt.Sscan(in.Text(), &what, (*int64)(&during)); err != nil {
			return fmt.Errorf("%q: %w", in.Text(), err)
		}
		amount, took, err := measure(address, what, during)
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		fmt.Println(amount, took.Nanoseconds())
	}
	return nil
}

func await(address string) (err error) {
	for end := time.Now().Add(readyTime); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var conn net.Conn
		if conn, err = net.DialTimeout("tcp4", address, time.Second); err == nil {
			return conn.Close()
		}
	}
	return fmt.Errorf("the server is not reached: %w", err)
}

func measure(address, what string, during time.Duration) (amount int64, took time.Duration, err error) {
	began := time.Now()
	conn, err := net.DialTimeout("tcp4", address, patience)
	if err != nil {
		return 0, 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(began.Add(during + patience)); err != nil {
		return 0, 0, err
	}
	switch what {
	case "connect":
		err = echo(conn, append([]byte{opEcho}, make([]byte, message)...))
		return 1, time.Since(began), err
	case "send":
		return send(conn.(*net.TCPConn), during)
	case "receive":
		return receive(conn, during)
	case "requests":
		return requests(conn, during)
	}
	return 0, 0, errors.New("no such measurement")
}

// echo says something, and waits for the first of a message to come back.
func echo(conn net.Conn, words []byte) error {
	if _, err := conn.Write(words); err != nil {
		return err
	}
	var first [1]byte
	_, err := io.ReadFull(conn, first[:])
	return err
}

// send counts what has arrived, not what was given to a buffer.
func send(conn *net.TCPConn, during time.Duration) (int64, time.Duration, error) {
	if _, err := conn.Write([]byte{opSink}); err != nil {
		return 0, 0, err
	}
	buf := make([]byte, chunk)
	began := time.Now()
	for time.Since(began) < during {
		if _, err := conn.Write(buf); err != nil {
			return 0, 0, err
		}
	}
	if err := conn.CloseWrite(); err != nil {
		return 0, 0, err
	}
	var arrived int64
	err := binary.Read(conn, binary.BigEndian, &arrived)
	return arrived, time.Since(began), err
}

func receive(conn net.Conn, during time.Duration) (sum int64, _ time.Duration, err error) {
	if _, err := conn.Write([]byte{opSource}); err != nil {
		return 0, 0, err
	}
	buf := make([]byte, chunk)
	began := time.Now()
	for time.Since(began) < during {
		n, err := conn.Read(buf)
		if err != nil {
			return 0, 0, err
		}
		sum += int64(n)
	}
	return sum, time.Since(began), nil
}

// requests says a message and waits for it to come back, again and again.
func requests(conn net.Conn, during time.Duration) (count int64, _ time.Duration, err error) {
	if _, err := conn.Write([]byte{opEcho}); err != nil {
		return 0, 0, err
	}
	words := make([]byte, message)
	began := time.Now()
	for time.Since(began) < during {
		if _, err := conn.Write(words); err != nil {
			return 0, 0, err
		}
		if _, err := io.ReadFull(conn, words); err != nil {
			return 0, 0, err
		}
		count++
	}
	return count, time.Since(began), nil
}
