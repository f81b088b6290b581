package battery_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/net/websocket"
)

// The host that has what programs want: repositories of git, Debian, Python and Node, a
// stream and a WebSocket.
const filesHost = "files.example"

func sites(t testing.TB) map[string]http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	serve := func(path string, contents []byte) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(contents) })
	}
	wheel := wheelOf("aetherdemo")
	serve("/simple/aetherdemo/", fmt.Appendf(nil, `<!DOCTYPE html><a href="/wheels/aetherdemo-1.0-py3-none-any.whl#sha256=%x">aetherdemo-1.0-py3-none-any.whl</a>`, sha256.Sum256(wheel)))
	serve("/wheels/aetherdemo-1.0-py3-none-any.whl", wheel)
	tarball := packed(map[string]string{"package/package.json": `{"name":"aether-demo","version":"1.0.0"}`})
	serve("/npm/aether-demo", npmDocument(t, "https://"+filesHost+"/npm/aether-demo.tgz", tarball))
	serve("/npm/aether-demo.tgz", tarball)
	deb := debOf()
	serve("/apt/./demo.deb", deb)
	serve("/apt/demo.deb", deb)
	serve("/apt/Packages", fmt.Appendf(nil, "Package: aether-demo\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nFilename: ./demo.deb\nSize: %d\nSHA256: %x\nDescription: a package\n\n", len(deb), sha256.Sum256(deb)))
	mux.HandleFunc("/ticks", ticks)
	mux.Handle("/echo", websocket.Handler(func(c *websocket.Conn) { _, _ = io.Copy(c, c) }))
	if git, err := exec.LookPath("git"); err == nil {
		mux.Handle("/git/", gitHandler(t, git))
	}
	return map[string]http.Handler{filesHost: mux}
}

// ticks is a response that takes a while.
func ticks(w http.ResponseWriter, r *http.Request) {
	for i := range 20 {
		fmt.Fprintf(w, "tick %d\n", i)
		if err := http.NewResponseController(w).Flush(); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// gitHandler serves a repository with one file.
func gitHandler(t testing.TB, git string) http.Handler {
	t.Helper()
	root := t.TempDir()
	repository := filepath.Join(root, "git", "demo.git")
	script := `set -e; mkdir -p "$1"; cd "$1"; git init -q --bare .; git config http.uploadpack true
tree=$(echo hello | git hash-object -w --stdin | sed 's/.*/100644 blob &\tfile/' | git mktree)
git update-ref HEAD $(git -c user.name=nobody -c user.email=nobody@files.example commit-tree -m first $tree)`
	cmd := exec.Command("sh", "-c", script, "sh", repository)
	cmd.Env = append(os.Environ(), "HOME="+root, "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return &cgi.Handler{Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + root}}
}

// wheelOf is a package of Python.
func wheelOf(name string) []byte {
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	record := ""
	for path, text := range map[string]string{
		name + ".py":                     "said = 'hello'\n",
		name + "-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
		name + "-1.0.dist-info/WHEEL":    "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
	} {
		w, _ := z.Create(path) // into memory
		_, _ = io.WriteString(w, text)
		record += path + ",,\n"
	}
	w, _ := z.Create(name + "-1.0.dist-info/RECORD")
	_, _ = io.WriteString(w, record)
	_ = z.Close()
	return out.Bytes()
}

// packed is a tar that is compressed.
func packed(files map[string]string) []byte {
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for name, text := range files {
		_ = archive.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(text))})
		_, _ = io.WriteString(archive, text)
	}
	_ = archive.Close()
	_ = zipped.Close()
	return out.Bytes()
}

func npmDocument(t testing.TB, url string, tarball []byte) []byte {
	t.Helper()
	sum := sha512.Sum512(tarball)
	version := map[string]any{"name": "aether-demo", "version": "1.0.0", "dist": map[string]string{"tarball": url, "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}}
	text, err := json.Marshal(map[string]any{"name": "aether-demo", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": version}})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// debOf is a package of Debian.
func debOf() []byte {
	var out bytes.Buffer
	out.WriteString("!<arch>\n")
	add := func(name string, contents []byte) {
		fmt.Fprintf(&out, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, 0, 0, 0, 0o100644, len(contents))
		out.Write(contents)
		if len(contents)%2 == 1 {
			out.WriteByte('\n')
		}
	}
	add("debian-binary", []byte("2.0\n"))
	add("control.tar.gz", packed(map[string]string{"./control": "Package: aether-demo\nVersion: 1.0\nArchitecture: all\nMaintainer: nobody\nDescription: a package\n"}))
	add("data.tar.gz", packed(map[string]string{"./usr/share/aether-demo": hex.EncodeToString([]byte("hello")) + "\n"}))
	return out.Bytes()
}
