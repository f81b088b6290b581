package vmm_test

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"aether/driver/vmm"
	"aether/internal/host/vsock"
)

// The monitor of these tests is QEMU, which has neither an API that takes orders
// before there is a machine nor the vsock of a monitor's own: this very program,
// started again, adds them. The machines are real, and so is their vsock.

const monitorArgument = "--as-monitor"

var qemuSystem = vmm.System{
	Name: "qemu-behind-an-api", Program: "monitor", Remedy: "none is needed",
	Version: func(said string) (string, error) {
		version, ok := strings.CutPrefix(strings.TrimSpace(said), "monitor ")
		if !ok {
			return "", fmt.Errorf("it says %.80q", said)
		}
		return version, nil
	},
	Modules:    []string{"virtio_mmio", "virtio_blk", "virtio_rng", "vmw_vsock_virtio_transport", "erofs", "overlay"},
	KernelArgs: "console=ttyS0 quiet loglevel=3 reboot=t panic=-1 random.trust_cpu=on cryptomgr.notests nowatchdog no_timer_check",
	MaxCPUs:    32,
	SavedFiles: []string{"state", "hardware"},
	CutsOff:    true,
	Arguments:  []string{monitorArgument},
	Monitor: func(dial vmm.Dial) vmm.Monitor {
		return apiMonitor{vmm.NewClient(dial, func(body []byte) string { return string(body) })}
	},
}

// apiMonitor is the driver's end.
type apiMonitor struct{ *vmm.Client }

type bootOrder struct {
	Hardware vmm.Hardware
	Words    string
}

func (m apiMonitor) order(ctx context.Context, verb string, body any) error {
	return m.Call(ctx, http.MethodPut, "/"+verb, body, nil)
}

func (m apiMonitor) Hello(ctx context.Context) error             { return m.order(ctx, "hello", nil) }
func (m apiMonitor) Pause(ctx context.Context) error             { return m.order(ctx, "pause", nil) }
func (m apiMonitor) Resume(ctx context.Context) error            { return m.order(ctx, "resume", nil) }
func (m apiMonitor) Save(ctx context.Context, _ vmm.State) error { return m.order(ctx, "save", nil) }
func (m apiMonitor) Load(ctx context.Context, _ vmm.State) error { return m.order(ctx, "load", nil) }
func (m apiMonitor) Boot(ctx context.Context, hw vmm.Hardware, words string) error {
	return m.order(ctx, "boot", bootOrder{hw, words})
}

// playMonitor is the monitor's process, if this is one.
func playMonitor() {
	if len(os.Args) < 2 || os.Args[1] != monitorArgument {
		return
	}
	m := &qemuMonitor{cid: newCID()}
	fmt.Fprintln(os.Stderr, errors.Join(m.serveGuest(), m.serveOrders()))
	os.Exit(1)
}

// qemuMonitor is the other end.
type qemuMonitor struct {
	cid      uint32
	hardware vmm.Hardware
	qmp      *qmpClient
}

// newCID is a number that no other machine of the host has, most likely.
func newCID() uint32 {
	var b [4]byte
	_, _ = rand.Read(b[:])
	return 1<<16 + binary.LittleEndian.Uint32(b[:])>>1
}

func (m *qemuMonitor) serveOrders() error {
	listener, err := net.Listen("unix", vmm.Socket)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	for verb, do := range map[string]func(io.Reader) error{
		"hello": func(io.Reader) error { return nil }, "boot": m.boot, "load": m.load, "save": m.save,
		"pause":  func(io.Reader) error { return m.qmp.call("stop", nil, nil) },
		"resume": func(io.Reader) error { return m.qmp.call("cont", nil, nil) },
	} {
		mux.HandleFunc("PUT /"+verb, func(w http.ResponseWriter, r *http.Request) {
			if err := do(r.Body); err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.WriteHeader(http.StatusNoContent)
		})
	}
	return http.Serve(listener, mux)
}

func (m *qemuMonitor) boot(body io.Reader) error {
	var order bootOrder
	if err := json.NewDecoder(body).Decode(&order); err != nil {
		return err
	}
	m.hardware = order.Hardware
	return m.start("-kernel", vmm.Kernel, "-initrd", vmm.Initramfs, "-append", order.Words)
}

func (m *qemuMonitor) save(io.Reader) error {
	text, err := json.Marshal(m.hardware)
	if err == nil {
		err = os.WriteFile(filepath.Join(vmm.Saved, "hardware"), text, 0o600)
	}
	if err == nil {
		err = m.qmp.call("migrate", map[string]any{"uri": "exec:cat > " + vmm.Saved + "/state"}, nil)
	}
	for err == nil {
		var info struct{ Status string }
		if err = m.qmp.call("query-migrate", nil, &info); info.Status == "completed" {
			return err
		}
		if info.Status == "failed" {
			err = errors.New("the migration failed")
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

func (m *qemuMonitor) load(io.Reader) error {
	text, err := os.ReadFile(filepath.Join(vmm.Saved, "hardware"))
	if err == nil {
		err = json.Unmarshal(text, &m.hardware)
	}
	if err == nil {
		err = m.start("-incoming", "exec:cat "+vmm.Saved+"/state")
	}
	for err == nil {
		var info struct{ Status string }
		if err = m.qmp.call("query-status", nil, &info); err == nil && info.Status != "inmigrate" {
			return m.qmp.call("cont", nil, nil)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return err
}

// start starts QEMU, which ends with this process, as this process with it.
func (m *qemuMonitor) start(more ...string) error {
	args := append([]string{"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "microvm", "-accel", "kvm", "-cpu", "host", "-m", strconv.FormatInt(m.hardware.MemoryMiB, 10) + "M",
		"-smp", strconv.Itoa(m.hardware.CPUs), "-serial", "stdio", "-qmp", "unix:qmp,server=on,wait=off",
		"-blockdev", "driver=raw,node-name=root,read-only=on,file.driver=file,file.locking=off,file.filename=" + vmm.Disk,
		"-device", "virtio-blk-device,drive=root", "-device", fmt.Sprintf("vhost-vsock-device,guest-cid=%d", m.cid),
		"-object", "rng-random,id=entropy,filename=/dev/urandom", "-device", "virtio-rng-device,rng=entropy"}, more...)
	cmd := exec.Command("qemu-system-x86_64", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // QEMU is killed when this thread is gone
		err := cmd.Start()
		started <- err
		if err == nil {
			err = cmd.Wait()
			fmt.Fprintln(os.Stderr, "QEMU ended:", err)
			os.Exit(1)
		}
	}()
	if err := <-started; err != nil {
		return err
	}
	qmp, err := newQMP()
	m.qmp = qmp
	return err
}

// serveGuest is the monitor's end of the guest's vsock.
func (m *qemuMonitor) serveGuest() error {
	listener, err := net.Listen("unix", vmm.Vsock)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go m.bridge(conn)
		}
	}()
	return nil
}

func (m *qemuMonitor) bridge(host net.Conn) {
	defer host.Close()
	var port uint32
	if _, err := fmt.Fscanf(oneByte{host}, "CONNECT %d\n", &port); err != nil {
		return
	}
	guest, err := vsock.Dial(context.Background(), vsock.Addr{CID: m.cid, Port: port})
	if err != nil {
		return
	}
	defer guest.Close()
	fmt.Fprintf(host, "OK %d\n", 1<<30)
	ended := make(chan struct{}, 2)
	for _, both := range [][2]net.Conn{{host, guest}, {guest, host}} {
		go func() {
			_, _ = io.Copy(both[0], both[1])
			ended <- struct{}{}
		}()
	}
	<-ended
}

// oneByte reads no more than is asked for.
type oneByte struct{ io.Reader }

func (r oneByte) Read(b []byte) (int, error) { return r.Reader.Read(b[:min(1, len(b))]) }

// qmpClient is as much of QEMU's protocol as is needed here.
type qmpClient struct {
	mu   sync.Mutex
	to   *json.Encoder
	from *json.Decoder
}

func newQMP() (*qmpClient, error) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		conn, err := net.Dial("unix", "qmp")
		if err == nil {
			q := &qmpClient{to: json.NewEncoder(conn), from: json.NewDecoder(conn)}
			return q, q.call("qmp_capabilities", nil, nil)
		}
		if time.Now().After(deadline) {
			return nil, err
		}
	}
}

func (q *qmpClient) call(command string, arguments, out any) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	order := map[string]any{"execute": command}
	if arguments != nil {
		order["arguments"] = arguments
	}
	if err := q.to.Encode(order); err != nil {
		return err
	}
	for {
		var answer struct{ Return, Error json.RawMessage }
		if err := q.from.Decode(&answer); err != nil {
			return err
		}
		if answer.Error != nil {
			return fmt.Errorf("%s: %s", command, answer.Error)
		}
		if answer.Return != nil && out != nil {
			return json.Unmarshal(answer.Return, out)
		}
		if answer.Return != nil {
			return nil
		}
	}
}
