package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"aether/internal/host/launch"
)

// hold keeps a connection to args[0], says so, and wants to hear more by it when asked on
// its standard input.
func hold(args []string) (string, error) {
	conn, err := net.DialTimeout("tcp", args[0], answerTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	return keep(conn, "holds")
}

// keep hears by a connection that it works, says so, and wants to hear more by it when
// asked on its standard input.
func keep(conn net.Conn, said string) (string, error) {
	if err := echo(conn); err != nil {
		return "", err
	}
	fmt.Println(said)
	if _, err := os.Stdin.Read(make([]byte, 1)); err != nil {
		return "", err
	}
	return "an echo", echo(conn)
}

// await keeps a connection to args[0], says so, and speaks again by it when there is a file
// args[1]. What becomes of that is in args[2]: in a fork nobody hears what it says.
func await(args []string) (string, error) {
	conn, err := net.DialTimeout("tcp", args[0], answerTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if err := echo(conn); err != nil {
		return "", err
	}
	fmt.Println("holds")
	for {
		if _, err := os.Stat(args[1]); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	said := "reached: an echo"
	if err := echo(conn); err != nil {
		said = "held: " + err.Error()
	}
	if err := os.WriteFile(args[2]+".new", []byte(said), 0o644); err != nil {
		return "", err
	}
	return said, os.Rename(args[2]+".new", args[2])
}

func echo(conn net.Conn) error {
	if _, err := conn.Write([]byte("> here\n")); err != nil {
		return err
	}
	_, err := said(conn, "> here\n")
	return err
}

// listen waits for somebody at a port.
func listen(args []string) (string, error) {
	l, err := net.Listen("tcp", ":"+args[0])
	if err != nil {
		return "", err
	}
	fmt.Println("listens")
	if err := l.(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return "", err
	}
	conn, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer conn.Close()
	_, err = conn.Write([]byte("a neighbour"))
	return "somebody came", err
}

// give waits at a unix socket, args[0], and gives whoever comes a connection to args[1].
func give(args []string) (string, error) {
	conn, err := net.DialTimeout("tcp", args[1], answerTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return "", err
	}
	defer file.Close()
	l, err := net.Listen("unix", args[0])
	if err != nil {
		return "", err
	}
	defer l.Close()
	if err := os.Chmod(args[0], 0o777); err != nil {
		return "", err
	}
	fmt.Println("gives")
	to, err := l.Accept()
	if err != nil {
		return "", err
	}
	defer to.Close()
	if _, _, err := to.(*net.UnixConn).WriteMsgUnix([]byte{1}, launch.Rights(file), nil); err != nil {
		return "", err
	}
	_, err = to.Read(make([]byte, 1))
	return "somebody took it", err
}

// take takes a connection at a unix socket, args[0], says so, and speaks by it when asked
// on its standard input.
func take(args []string) (string, error) {
	from, err := net.Dial("unix", args[0])
	if err != nil {
		return "", err
	}
	defer from.Close()
	rights := make([]byte, 64)
	_, n, _, _, err := from.(*net.UnixConn).ReadMsgUnix(make([]byte, 1), rights)
	if err != nil {
		return "", err
	}
	file, err := launch.Received(rights[:n])
	if err != nil {
		return "", err
	}
	conn, err := net.FileConn(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return "", err
	}
	defer conn.Close()
	return keep(conn, "took")
}

// inherit has a child speak by its parent's connection.
func inherit(args []string) (string, error) {
	conn, err := net.DialTimeout("tcp", args[0], answerTime)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	file, err := conn.(*net.TCPConn).File()
	if err != nil {
		return "", err
	}
	defer file.Close()
	cmd := exec.Command("/proc/self/exe", "child")
	cmd.ExtraFiles, cmd.Stderr = []*os.File{file}, os.Stderr
	out, err := cmd.Output()
	return string(out), err
}

// child speaks by the descriptor that it was given.
func child([]string) (string, error) {
	conn, err := net.FileConn(os.NewFile(3, "given"))
	if err != nil {
		return "", err
	}
	return "an echo", echo(conn)
}

// address says which the sandbox has beside its loopback's.
func address([]string) (string, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return "", err
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String(), nil
		}
	}
	return "", errors.New("it has none")
}
