package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	"aether/internal/host/guestinit"
	"aether/internal/host/netdev"
	"aether/internal/host/subreaper"
)

// inside is the life of the lab: get ready, run the tests, say how they ended.
func inside() {
	go func() {
		for {
			if _, err := os.Stdout.Write([]byte{beat}); err != nil {
				fmt.Fprintln(os.Stderr, "kvmtest: beat:", err)
				return
			}
			time.Sleep(beatEvery)
		}
	}()
	code, err := runTests()
	if err != nil {
		fmt.Println("kvmtest:", err)
	}
	fmt.Printf("\n%s%d\n", verdict, code)
	if err := errors.Join(os.Stdout.Sync(), cable.Close(), guestinit.PowerOff()); err != nil {
		fmt.Println("kvmtest:", err)
	}
}

func runTests() (int, error) {
	if err := guestinit.MountEarly(); err != nil {
		return 1, err
	}
	text, err := os.ReadFile(configFile)
	if err != nil {
		return 1, err
	}
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return 1, err
	}
	if err := prepare(c); err != nil {
		return 1, err
	}
	return await(c)
}

// await runs the tests and reaps what they leave behind: programs that are killed
// on purpose have children.
func await(c config) (int, error) {
	children, err := subreaper.Adopt()
	if err != nil {
		return 1, err
	}
	defer children.Close()
	tests, err := children.Start(func() (int, error) {
		p, err := os.StartProcess(c.Command[0], c.Command, &os.ProcAttr{Dir: "/tmp", Env: c.Env, Files: []*os.File{nil, os.Stdout, os.Stdout}})
		if err != nil {
			return 0, err
		}
		return p.Pid, nil
	})
	if err != nil {
		return 1, err
	}
	status := tests.Wait()
	if status.Signaled() {
		return 1, fmt.Errorf("the tests were killed: %v", status.Signal())
	}
	return status.ExitStatus(), nil
}

func prepare(c config) error {
	for _, name := range c.Modules {
		if err := guestinit.LoadModule(name); err != nil {
			return err
		}
	}
	if _, err := guestinit.SwitchRoot(guestinit.Root{Device: "/dev/vda", Type: "erofs"}); err != nil {
		return err
	}
	// Where tests work there may be devices: the jail of a monitor has its own /dev/kvm.
	if err := guestinit.Mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777"); err != nil {
		return err
	}
	if err := guestinit.MountLate(0); err != nil {
		return err
	}
	if err := guestinit.LoopbackUp(); err != nil {
		return err
	}
	if err := haveAddress(); err != nil {
		return err
	}
	_, err := guestinit.MountGroups(0)
	return err
}

// cable is the lab's network device, at whose other end nobody is. It is there while this
// is open.
var cable *os.File

// haveAddress gives the lab an address, at which tests have servers for sandboxes to reach.
func haveAddress() (err error) {
	cable, err = netdev.Tap{Name: "lab0", Address: netip.MustParseAddr("192.0.2.1"), Gateway: netip.MustParseAddr("192.0.2.2"), MTU: 1500,
		Hardware: netdev.HardwareAddr{2, 2, 0, 0, 0, 1}, GatewayHardware: netdev.HardwareAddr{2, 2, 0, 0, 0, 2}}.OpenHere()
	return err
}
