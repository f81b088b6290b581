package cell_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	"aether/driver/cell"
	"aether/network/networktest"
	"aether/sandbox"
)

// connected is a program with connections of many kinds to the server at the port of its
// argument, which it finds by name, and to a host that does not answer. For each line it
// says what has become of them, and what it reaches anew.
const connected = `
import http.client, json, os, select, socket, struct, sys, threading, time
port, plain, silent = int(sys.argv[1]), int(sys.argv[2]), (sys.argv[3], int(sys.argv[4]))
def lookup(): # of localhost, by the gateway
    with socket.socket(type=socket.SOCK_DGRAM) as u:
        u.settimeout(60); u.connect(("198.18.0.1", 53))
        u.send(struct.pack(">6H", 7, 256, 1, 0, 0, 0) + b"\x09localhost\x00\x00\x01\x00\x01")
        return socket.inet_ntoa(u.recv(512)[-4:])
def get(c):
    c.request("GET", "/", headers={"Host": f"localhost:{port}"})
    return c.getresponse().read().decode()
def keep():
    c = http.client.HTTPConnection(lookup(), port, timeout=120)
    return c, get(c)
def ask(word, family=socket.AF_INET, prefix=""):
    c = socket.socket(family); c.connect((prefix + lookup(), plain))
    c.sendall(word)
    return c
def tried(f, *args):
    try: return str(f(*args))
    except OSError as e: return type(e).__name__
def later(f, *args):
    said = []
    t = threading.Thread(target=lambda: said.append(tried(f, *args)), daemon=True); t.start()
    def ended(patience): t.join(patience); return said[0] if said else "waits"
    return ended
c, first = keep()
c.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
number = c.sock.fileno()
poll = select.epoll(); poll.register(number, select.EPOLLIN)
edge = select.epoll(); edge.register(number, select.EPOLLIN | select.EPOLLET)
six = ask(b">hold", socket.AF_INET6, "::ffff:"); six.recv(5, socket.MSG_WAITALL)
closing = ask(b">bye"); closing.recv(1, socket.MSG_PEEK)
shut = ask(b">hold"); shut.recv(5, socket.MSG_WAITALL); shut.shutdown(socket.SHUT_WR)
waiting = ask(b">hold"); waiting.recv(5, socket.MSG_WAITALL)
received = later(waiting.recv, 1)
begun = time.monotonic()
def unless_late(said, refused, waits): # after twenty seconds the gateway gives up with a host
    return waits if said == refused and time.monotonic() - begun > 15 else said
making = socket.socket(); made = later(making.connect, silent)
while making.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1) != b"\x02": time.sleep(0.01) # SYN_SENT
beginning = socket.socket(); beginning.setblocking(False); beginning.connect_ex(silent)
listener = socket.create_server(("127.0.0.1", 8080))
print("primed", flush=True)
for line in sys.stdin:
    gone = line.strip() != "source"
    patience = 120 if gone else 0.1
    six.settimeout(patience); shut.settimeout(patience)
    hangup = select.EPOLLHUP | select.EPOLLERR
    said = {"polled": [fd == number and e & hangup == hangup for p in (poll, edge) for fd, e in p.poll(0)], "received": received(patience), "made": unless_late(made(patience), "ConnectionRefusedError", "waits"),
        "beginning": unless_late(os.strerror(beginning.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)), "Connection refused", "Success"),
        "six": tried(six.recv, 1), "closing": tried(closing.recv, 9), "shut": tried(shut.recv, 1), "kept": tried(get, c),
        "options": [c.sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY), os.get_blocking(number), os.get_inheritable(number)]}
    if said["kept"] == first: said["kept"] = "goes on"
    with socket.create_connection(("127.0.0.1", 8080)): listener.accept()[0].close()
    try:
        fresh, remote = keep()
        said |= {"anew": "another" if remote != first else "the same", "address": fresh.sock.getsockname()[0]}
    except OSError as e: said["anew"] = type(e).__name__
    print(json.dumps(said), flush=True)
`

// answer tells each request by which connection it came.
func answer(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) }

// holdConnections serves connections that stay: each is told what it said, and after ">bye"
// nothing more.
func holdConnections(t *testing.T) (port string) {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	hold := func(conn net.Conn) {
		defer conn.Close()
		buf := make([]byte, 9)
		n, err := conn.Read(buf)
		if err == nil {
			_, err = conn.Write(buf[:n])
		}
		if err == nil && string(buf[:n]) == ">bye" {
			err = conn.(*net.TCPConn).CloseWrite()
		}
		if err == nil {
			<-t.Context().Done()
		}
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go hold(conn)
		}
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port
}

// fates are what the program says of its connections.
type fates struct {
	Polled                                                    []bool
	Received, Made, Beginning, Six, Closing, Shut, Kept, Anew string
	Options                                                   []any
}

// usual are those of a cell that has all of them, and over of one that has none.
var (
	options = []any{1.0, false, false}
	usual   = fates{Polled: []bool{}, Received: "waits", Made: "waits", Beginning: "Success", Six: "TimeoutError", Closing: "b'>bye'",
		Shut: "TimeoutError", Kept: "goes on", Anew: "another", Options: options}
	over = fates{Polled: []bool{true, true}, Received: reset, Made: reset, Beginning: "Connection reset by peer", Six: reset, Closing: reset,
		Shut: reset, Kept: reset, Anew: "another", Options: options}
)

const reset = "ConnectionResetError"

// wantFates asks the program, and gives the address that it has now.
func (c *conversation) wantFates(t *testing.T, who string, want fates) (address string) {
	t.Helper()
	c.say(t, who)
	line, err := c.lines.ReadString('\n')
	got := struct {
		fates
		Address string
	}{}
	if err == nil {
		err = json.Unmarshal([]byte(line), &got)
	}
	if err != nil || !reflect.DeepEqual(got.fates, want) {
		t.Errorf("%s: %v, %q\n not %+v", who, err, line, want)
	}
	return got.Address
}

// connectedCell is a cell in which the program has its connections.
type connectedCell struct {
	*conversation
	driver *cell.Driver
	source sandbox.Instance
	policy sandbox.Network
}

func newConnectedCell(t *testing.T) connectedCell {
	t.Helper()
	need(t, "python3")
	if known, err := net.LookupHost("localhost"); err != nil || !slices.Contains(known, "127.0.0.1") {
		t.Skipf("this host does not know localhost: %v, %v", known, err)
	}
	server := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	plain, silent := holdConnections(t), silentHost(t)
	host, silentPort, _ := net.SplitHostPort(silent)
	c := connectedCell{policy: sandbox.Network{Mode: sandbox.EgressNetwork, Allow: []string{"localhost.", "127.0.0.1", silent}}}
	c.driver, c.source = networked(t, c.policy.Allow...)
	c.conversation = converse(t, c.source, 0, "python3", "-c", connected, port, plain, host, silentPort)
	c.hear(t, "primed")
	return c
}

// silentHost is a server at an address of this host that lets nobody in.
func silentHost(t *testing.T) (address string) {
	t.Helper()
	server := exec.Command("python3", "-uc", `import socket, sys
l = socket.socket(); l.bind((sys.argv[1], 0)); l.listen(0) # which has room for one
c = socket.create_connection(l.getsockname())
print(l.getsockname()[1]); sys.stdin.read()`, networktest.HostAddress(t))
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(in.Close(), server.Wait()); err != nil {
			t.Error(err)
		}
	})
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(networktest.HostAddress(t), strings.TrimSpace(port))
}

// wantClosed wants a cell to say how many connections the last checkpoint has closed.
func wantClosed(t *testing.T, who string, i sandbox.Instance, want int) {
	t.Helper()
	if got := i.(sandbox.ConnectionReporter).ConnectionsClosed(); got != want {
		t.Errorf("%s says that %d connections were closed, not %d", who, got, want)
	}
}

// opened is how many connections the program has made.
const opened = 5

// TestForkWithConnections: a child has none of its source's connections. Programs find
// them reset, whatever they were about, and reach the same hosts from the child's own
// address. The source goes on with all of them.
func TestForkWithConnections(t *testing.T) {
	c := newConnectedCell(t)
	source := c.source
	child := fork(t, source, 1)[0]
	wantClosed(t, "the source", source, opened)
	wantClosed(t, "the child", child, opened)
	grandchild := fork(t, child, 1)[0]
	wantClosed(t, "the grandchild", grandchild, 0)
	addresses := map[string]bool{
		converse(t, child, c.pid).wantFates(t, "child", over):           true,
		converse(t, grandchild, c.pid).wantFates(t, "grandchild", over): true,
		c.wantFates(t, "source", usual):                                 true,
	}
	if len(addresses) != 3 {
		t.Errorf("three cells have the addresses %v", addresses)
	}
}

// TestCheckpointWithConnections: what is true of a child is so of a restored cell, also if
// it has no network any more. Pausing alone ends nothing.
func TestCheckpointWithConnections(t *testing.T) {
	c := newConnectedCell(t)
	pauser := c.source.(sandbox.Pauser)
	err := pauser.Pause(t.Context())
	if err != nil && sandbox.ClassOf(err) != sandbox.Unavailable { // an ordinary user may have no cgroup
		t.Fatal(err)
	}
	kept := checkpointOf(t, c.source)
	wantClosed(t, "the source", c.source, opened)
	if err == nil {
		err = pauser.Resume(t.Context())
	}
	if err != nil && sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Fatal(err)
	}
	c.wantFates(t, "source", usual)
	restored := goOn(t, c.driver, kept, sandbox.Spec{Network: c.policy})
	wantClosed(t, "the restored one", restored, opened)
	converse(t, restored, c.pid).wantFates(t, "restored", over)
	alone := over
	alone.Anew = "OSError"
	converse(t, goOn(t, c.driver, kept, sandbox.Spec{}), c.pid).wantFates(t, "without a network", alone)
	again := goOn(t, c.driver, checkpointOf(t, restored), sandbox.Spec{Network: c.policy})
	wantClosed(t, "the one that was kept again", again, 1) // that the program has made anew
}

// TestForkRefusesConnections: those that do not leave the cell have both their ends there,
// which would have to agree on every byte; those of the host's network are not the cell's.
func TestForkRefusesConnections(t *testing.T) {
	_, within := networked(t)
	c := converse(t, within, 0, "python3", "-c", `import socket, sys
u = socket.socket(type=socket.SOCK_DGRAM); u.connect(("198.18.0.1", 53)); own = u.getsockname()[0]
l = socket.create_server((own, 8080)); c = socket.create_connection((own, 8080)); s, _ = l.accept()
print("primed", flush=True); sys.stdin.readline()`)
	c.hear(t, "primed")
	_, err := within.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{{}})
	wantClass(t, err, sandbox.Conflict, "")
	driver, _ := newDriver(t)
	open := create(t, driver, sandbox.Spec{Network: sandbox.Network{Mode: sandbox.HostNetwork}})
	c = converse(t, open, 0, "python3", "-c", `import socket, sys
c = socket.create_connection(("127.0.0.1", int(sys.argv[1]))); print("primed", flush=True); sys.stdin.readline()`, holdConnections(t))
	c.hear(t, "primed")
	_, err = open.(sandbox.Forker).Fork(t.Context(), []sandbox.Spec{{}})
	wantClass(t, err, sandbox.Conflict, "")
}

// TestForkOfNodeWithConnections: node, which is told by its epoll set, has its handlers know
// and its pool of connections make another.
func TestForkOfNodeWithConnections(t *testing.T) {
	host := networktest.HostAddress(t)
	l, err := net.Listen("tcp4", host+":0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(answer))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(l.Addr().String())
	_, source := networked(t, host)
	node := converse(t, source, 0, "node", "-e", `
const http = require('http'), [host, port] = process.argv.slice(1), agent = new http.Agent({keepAlive: true, maxSockets: 1});
const get = () => new Promise((resolve, reject) => http.get({host, port, agent}, r => {
	let text = ''; r.on('data', d => text += d); r.on('end', () => resolve(text)) }).on('error', reject));
let told = 'nothing';
require('net').connect(port, host, async () => {
	const first = await get();
	require('readline').createInterface({input: process.stdin}).on('line', async () => {
		const now = await get().catch(e => e.code);
		console.log(now === first ? 'the same' : now.includes(':') ? 'another' : now, told) });
	console.log('primed') }).on('error', e => told = e.code);`, host, port)
	node.hear(t, "primed")
	child := converse(t, fork(t, source, 1)[0], node.pid)
	child.say(t, "")
	child.hear(t, "another ECONNRESET")
	node.say(t, "")
	node.hear(t, "the same nothing")
}

// TestForkWithAVisitor: a connection to a port of the cell, by its guest service, stays with
// the source too.
func TestForkWithAVisitor(t *testing.T) {
	driver, _ := newDriver(t)
	source := create(t, driver, sandbox.Spec{})
	server := converse(t, source, 0, "python3", "-c", `import socket, sys
l = socket.create_server(("127.0.0.1", 8080)); print("primed", flush=True)
c, _ = l.accept(); print("accepted", flush=True)
for line in sys.stdin:
    try: print(c.recv(5).decode(), flush=True)
    except OSError as e: print(type(e).__name__, flush=True)`)
	server.hear(t, "primed")
	visitor, err := client(t, source).DialPort(t.Context(), 8080)
	if err != nil {
		t.Fatal(err)
	}
	defer visitor.Close()
	server.hear(t, "accepted")
	child := fork(t, source, 1)[0]
	wantClosed(t, "the child", child, 1)
	copied := converse(t, child, server.pid)
	copied.say(t, "")
	copied.hear(t, reset)
	if _, err := visitor.Write([]byte("hello")); err != nil {
		t.Fatal(err)
	}
	server.say(t, "")
	server.hear(t, "hello")
}
