package docker_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"aether/driver/daemon/daemontest"
	"aether/driver/docker"
	"aether/driver/docker/dockertest"
	"aether/network/networktest"
	"aether/sandbox"
)

const (
	// sharedVariable tells an ordinary user to use the daemon that root started.
	sharedVariable = "AETHER_DOCKER_TEST_SHARED"
	// pace is of a driver that makes a sandbox in less than half a second.
	pace = 4
)

func newDriver(dir string) sandbox.Driver {
	return docker.New(docker.Options{RunDir: dir, Images: daemontest.Images, Network: networktest.Service()})
}

func TestMain(m *testing.M) { os.Exit(daemontest.Main(m, newDriver, lacks, start)) }

func lacks() string {
	if os.Getenv(sharedVariable) != "" {
		return ""
	}
	return dockertest.Lacks()
}

func start(dir string) (stop func(), err error) {
	if os.Getenv(sharedVariable) != "" {
		return func() {}, nil // of the daemon that DOCKER_HOST names
	}
	socket, stop, err := dockertest.Start(dir)
	if err != nil {
		return nil, err
	}
	return stop, os.Setenv("DOCKER_HOST", "unix://"+socket)
}

// containers lists what the daemon holds of sandboxes.
func containers() (list []string, err error) {
	var found []struct {
		Names []string
		State string
	}
	err = dockertest.Ask(context.Background(), strings.TrimPrefix(os.Getenv("DOCKER_HOST"), "unix://"), "/containers/json?all=1", &found)
	for _, c := range found {
		list = append(list, strings.Join(c.Names, " ")+" "+c.State)
	}
	return list, err
}
