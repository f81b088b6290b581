package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// containerImage is what Docker calls the image of the lab.
const containerImage = "hosttest"

const searchPath = labDir + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// standing is from where the programs of a way are started.
type standing struct {
	env        []string
	credential *syscall.Credential
	// prefix is the command that starts the programs, given where to.
	prefix func(dir string) []string
}

// command is a program on its way. An empty dir is the user's home.
func (s standing) command(ctx context.Context, dir string, argv []string) *exec.Cmd {
	if s.prefix != nil {
		argv = append(s.prefix(dir), argv...)
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, s.env
	if dir == "" {
		cmd.Dir = "/"
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.credential}
	stopAll(cmd)
	return cmd
}

// stand has the machine get ready for a way.
func stand(ctx context.Context, way string, c config) (s standing, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(c.Pace)*time.Minute)
	defer cancel()
	common := []string{"PATH=" + searchPath, "LANG=C.UTF-8", "AETHER_TEST_PACE=" + strconv.Itoa(c.Pace),
		"AETHER_DRIVERTEST_NEIGHBOUR=" + path.Join(labDir, "bin", "neighbour"), "AETHER_NET=" + path.Join(labDir, "bin", "aether-net")}
	switch way {
	case wayRoot:
		return standing{env: append(common, "HOME=/root", "USER=root")}, nil
	case wayUser:
		s, err = asUser(common)
	case wayDelegated:
		s, err = asManagedUser(ctx, common)
	default:
		return standing{env: append(common, "HOME=/root"), prefix: container(nil)}, startDocker(ctx)
	}
	if err == nil && c.Profile != "" {
		err = s.confine(ctx, c.Profile)
	}
	return s, err
}

// confine has everything on the way start under a profile of AppArmor.
func (s *standing) confine(ctx context.Context, profile string) error {
	file := "/run/" + profileName + ".profile"
	if err := os.WriteFile(file, []byte(profile), 0o600); err != nil {
		return err
	}
	before := s.prefix
	s.prefix = func(dir string) (argv []string) {
		if before != nil {
			argv = before(dir)
		}
		return append(argv, "aa-exec", "-p", profileName, "--")
	}
	return order(ctx, "apparmor_parser", "-r", file)
}

func asUser(env []string) (standing, error) {
	u, err := user.Lookup(userName)
	if err != nil {
		return standing{}, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return standing{}, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return standing{}, err
	}
	return standing{env: append(env, "HOME="+u.HomeDir, "USER="+u.Username), credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}, nil
}

// asManagedUser starts the user's own systemd, as a login would, and has it make a
// group for every command.
func asManagedUser(ctx context.Context, env []string) (standing, error) {
	s, err := asUser(env)
	if err != nil {
		return s, err
	}
	if err := order(ctx, "loginctl", "enable-linger", userName); err != nil {
		return s, err
	}
	runDir := fmt.Sprintf("/run/user/%d", s.credential.Uid)
	s.env = append(s.env, "XDG_RUNTIME_DIR="+runDir, "DBUS_SESSION_BUS_ADDRESS=unix:path="+runDir+"/bus")
	s.prefix = func(string) []string {
		return []string{"systemd-run", "--user", "--scope", "--quiet", "--collect", "-p", "Delegate=yes"}
	}
	return s, s.await(ctx)
}

// await waits until a first command succeeds.
func (s standing) await(ctx context.Context) error {
	for {
		out, err := s.command(ctx, "", []string{"true"}).CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the user's systemd starts nothing: %w: %s", err, lastLines(string(out), 1))
		case <-time.After(time.Second):
		}
	}
}

func startDocker(ctx context.Context) error {
	if err := order(ctx, "systemctl", "start", "docker.service"); err != nil {
		return err
	}
	return order(ctx, "docker", "import", containerTar, containerImage)
}

// container is how Docker runs a program by default, but for the options.
func container(options []string) func(dir string) []string {
	return func(dir string) []string {
		args := []string{"docker", "run", "--rm", "--network", "none", "-v", labDir + ":" + labDir + ":ro", "-e", "PATH=" + searchPath}
		if dir != "" {
			args = append(args, "-w", dir)
		}
		return append(append(args, options...), containerImage)
	}
}

// order runs a program of the machine's own.
func order(ctx context.Context, argv ...string) error {
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, lastLines(string(out), 3))
	}
	return nil
}
