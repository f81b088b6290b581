package battery_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"aether/internal/host/spawn"
)

// databaseVariable says that a database runs already: an ordinary user that the system
// does not know cannot start one.
const databaseVariable = "AETHER_BATTERY_DATABASE"

// postgres is where this host has its database's programs, or "".
func postgres() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres") // a pattern without fault
	if len(found) == 0 {
		return ""
	}
	return filepath.Dir(found[0])
}

// noDatabase says why there is none.
func noDatabase() string {
	if _, err := databaseUser(); err != nil && os.Getenv(databaseVariable) == "" {
		return "no database can be started: " + err.Error()
	}
	if postgres() == "" {
		return "this host has no PostgreSQL"
	}
	return ""
}

// databaseUser is who runs it: not root, which it refuses to be.
func databaseUser() (*user.User, error) {
	if os.Geteuid() == 0 {
		return user.Lookup("nobody")
	}
	return user.LookupId(strconv.Itoa(os.Geteuid()))
}

// database starts a real one, if this host has it, until the test ends.
func database(t *testing.T) {
	t.Helper()
	who, err := databaseUser()
	if postgres() == "" || err != nil || os.Getenv(databaseVariable) != "" {
		return
	}
	t.Setenv(databaseVariable, "1")
	dir, err := os.MkdirTemp("", "aether-database-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	start := func(name string, args ...string) *exec.Cmd {
		cmd := exec.Command(filepath.Join(postgres(), name), args...)
		cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if os.Geteuid() == 0 {
			cmd.SysProcAttr.Credential = &syscall.Credential{Uid: number(t, who.Uid), Gid: number(t, who.Gid)}
		}
		return cmd
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(dir, int(number(t, who.Uid)), int(number(t, who.Gid))); err != nil {
			t.Fatal(err)
		}
	}
	data := filepath.Join(dir, "data")
	thread, err := spawn.Lasting() // with which they are killed
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	initdb := start("initdb", "-D", data, "-U", "postgres", "-A", "trust", "--no-sync", "--no-locale")
	initdb.Stdout, initdb.Stderr = &out, &out
	if err = thread.Do(initdb.Start); err == nil {
		err = initdb.Wait()
	}
	if err != nil {
		t.Fatalf("initdb: %v: %s", err, &out)
	}
	if err := os.WriteFile(filepath.Join(data, "pg_hba.conf"), []byte("host all all 0.0.0.0/0 trust\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	host := records["database.example"][0]
	cmd := start("postgres", "-D", data, "-k", "", "-h", host, "-F")
	if err := thread.Do(cmd.Start); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGQUIT); _ = cmd.Wait() })
	awaitListener(t, net.JoinHostPort(host, "5432"))
}

func number(t *testing.T, text string) uint32 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

func awaitListener(t *testing.T, address string) {
	t.Helper()
	for end := time.Now().Add(attackTime); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
			return
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
