package snapshot

import (
	"encoding/json"
	"fmt"
	"strings"
)

// program counts all the time and holds so many MiB of memory, a file that is open behind
// its third byte, a pair of sockets, one that listens and, if it is told to be connected, a
// connection to itself; or no socket at all. For every line, a word, it answers what it has. The first line sets
// the word that it keeps in each of them.
const program = `
import json, os, socket, sys, threading, time
mib = int(sys.argv[1])
block = os.urandom(4096)
data = [bytearray(block) * 256 for _ in range(mib)]
count, word = 0, None
def tick():
    global count
    while True:
        count += 1
        time.sleep(0.0005)
threading.Thread(target=tick, daemon=True).start()
left = right = listener = near = far = None
if sys.argv[2] != "alone":
    left, right = socket.socketpair()
    os.makedirs("/tmp/aether-lab", exist_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("/tmp/aether-lab/%d" % os.getpid())
    listener.listen()
    for s in (left, right, listener):
        s.settimeout(2)
if sys.argv[2] == "connected":
    server = socket.create_server(("127.0.0.1", 0))
    near = socket.create_connection(server.getsockname(), timeout=2)
    far, _ = server.accept()
    near.settimeout(2)
    far.settimeout(2)
def attempt(f):
    try:
        return f()
    except Exception as e:
        return "failed: %s" % e
def accepted():
    with socket.socket(socket.AF_UNIX) as caller:
        caller.connect(listener.getsockname())
        called, _ = listener.accept()
        with called:
            return through(caller, called)
def through(a, b):
    if a is None:
        return "nothing"
    a.sendall(word.encode())
    return b.recv(100).decode()
def reread():
    at = held.tell()
    text = held.read()
    held.seek(at)
    return text
for line in sys.stdin:
    said = line.strip()
    if said == "ping":
        print("pong", flush=True)
        continue
    if word is None:
        word = said
        for piece in data:
            piece[:len(word)] = word.encode()
        held = open("/tmp/aether-lab-held", "w+")
        held.write("abc" + word)
        held.flush()
        held.seek(3)
        with open("/tmp/aether-lab-file", "w") as f:
            f.write(word)
    print(json.dumps({"said": said, "count": count, "word": word,
        "memory": attempt(lambda: all(bytes(p[:len(word)]) == word.encode() and bytes(p[-4096:]) == block for p in data)),
        "file": attempt(reread), "pair": attempt(lambda: through(left, right)), "listener": attempt(accepted), "tcp": attempt(lambda: through(near, far))}), flush=True)
`

// What sockets the program is to have.
const (
	unconnected = "unconnected"
	connected   = "connected"
	alone       = "alone"
)

// A ping is answered without a look at anything.
const ping, pong = "ping", "pong"

// state is an answer.
type state struct {
	Said     string `json:"said"`
	Count    int64  `json:"count"`
	Word     string `json:"word"`
	Memory   any    `json:"memory"`
	File     string `json:"file"`
	Pair     string `json:"pair"`
	Listener string `json:"listener"`
	TCP      string `json:"tcp"`
}

func parseState(answer, said string) (s state, err error) {
	d := json.NewDecoder(strings.NewReader(answer))
	if err = d.Decode(&s); err != nil || s.Said != said {
		err = fmt.Errorf("%.200q is no answer to %q", answer, said)
	}
	return s, err
}
