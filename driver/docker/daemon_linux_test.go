package docker_test

import (
	"os"
	"strings"
	"testing"

	"aether/driver/daemon/daemontest"
	"aether/driver/docker"
	"aether/image"
	"aether/sandbox"
)

func noImages() (*image.Store, error) { return nil, os.ErrInvalid }

func TestDaemonThatCannotBeUsed(t *testing.T) {
	at := func(dir, host string) sandbox.Driver {
		return docker.New(docker.Options{RunDir: dir, Host: host, Images: noImages})
	}
	daemontest.CannotBeUsed(t, at, map[string]daemontest.Unusable{
		"missing":    {"unix://" + daemontest.Missing(t), "does not exist", "docker.io"},
		"down":       {"unix://" + daemontest.Dead(t), "nobody listens", "start it"},
		"hanging":    {"unix://" + daemontest.Silent(t), "does not answer", "restart it"},
		"elsewhere":  {"tcp://127.0.0.1:1", "not a socket of this host", "DOCKER_HOST"},
		"no address": {"unix://", "not a socket of this host", "DOCKER_HOST"},
	})
}

func TestUnknownRuntime(t *testing.T) {
	daemontest.Need(t)
	driver := docker.New(docker.Options{RunDir: t.TempDir(), Runtime: "no-such", Images: noImages})
	report := driver.Probe(t.Context())
	if report.Usable || !strings.Contains(report.Reason, "no-such") || report.Version == "" {
		t.Errorf("%+v", report)
	}
	if _, err := driver.Create(t.Context(), sandbox.Spec{}); sandbox.ClassOf(err) != sandbox.Unavailable {
		t.Errorf("create: %v", err)
	}
}
