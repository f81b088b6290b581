package e2etest

import (
	"context"
	"embed"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"
)

//go:embed testdata
var testdata embed.FS

// offline is what npm says where the registry cannot be reached.
var offline = regexp.MustCompile(`ENOTFOUND|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN|ENETUNREACH`)

const patience = 10 * time.Minute

// Run runs every step of testdata/client.mjs against the service at url, which
// must be open to callers without a token. The directory is one in the sandbox
// that does not exist and may be made.
func Run(t *testing.T, url, dir string) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("this host has no %s: %v", tool, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	home := install(ctx, t)
	client := exec.CommandContext(ctx, "node", "client.mjs")
	client.Dir = home
	client.Env = append(os.Environ(), "E2B_SANDBOX_URL="+url, "WORKDIR="+dir)
	out, err := client.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Errorf("the client: %v", err)
	}
}

// install puts the client and exactly the packages of its lock file in a
// directory of their own.
func install(ctx context.Context, t *testing.T) string {
	t.Helper()
	home := t.TempDir()
	for _, name := range []string{"package.json", "package-lock.json", "client.mjs"} {
		data, err := testdata.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(home, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = home
	out, err := npm.CombinedOutput()
	if err != nil && offline.Match(out) {
		t.Skipf("this host cannot reach a package registry: %s", out)
	}
	if err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return home
}
