package profile_test

import (
	"encoding/json"
	"fmt"

	"aether/profile"
)

func ExampleParse() {
	s, err := profile.Parse("FC")
	fmt.Println(s, err)
	_, err = profile.Parse("virtualbox")
	fmt.Println(err)
	// Output:
	// firecracker <nil>
	// system: "virtualbox" is not known (known: aethervm, firecracker, cloud-hypervisor, gvisor, kata, qemu-kvm, docker, cell, crun, youki, bubblewrap, systemd-nspawn, incus, vz, lima, orbstack, utm)
}

func ExampleRank() {
	for _, p := range profile.Rank(profile.Profiles(profile.Core()...)) {
		fmt.Println(p)
	}
	// Output:
	// aethervm: fitness 0.86 (start 0.80, density 0.85, isolation 0.80, snapshot 0.90, agent-control 0.95)
	// firecracker: fitness 0.79 (start 0.90, density 0.90, isolation 0.85, snapshot 0.80, agent-control 0.50)
	// cloud-hypervisor: fitness 0.76 (start 0.85, density 0.80, isolation 0.85, snapshot 0.80, agent-control 0.50)
	// gvisor: fitness 0.65 (start 0.85, density 0.85, isolation 0.60, snapshot 0.40, agent-control 0.55)
	// docker: fitness 0.65 (start 0.95, density 0.95, isolation 0.35, snapshot 0.40, agent-control 0.60)
	// kata: fitness 0.62 (start 0.65, density 0.60, isolation 0.85, snapshot 0.40, agent-control 0.60)
	// qemu-kvm: fitness 0.61 (start 0.40, density 0.45, isolation 0.90, snapshot 0.85, agent-control 0.45)
}

func ExampleCompare() {
	c := profile.Compare(profile.QEMU, profile.Docker)
	fmt.Println(c)
	data, err := json.Marshal(c)
	fmt.Println(string(data), err)
	// Output:
	// qemu-kvm vs docker: fitness delta -0.04
	//   start-latency: -0.55
	//   density: -0.50
	//   isolation: +0.55
	//   snapshotting: +0.45
	//   agent-control: -0.15
	// {"a":"qemu-kvm","b":"docker","fitness_delta":-0.04,"axis_deltas":[{"axis":"start-latency","delta":-0.55},{"axis":"density","delta":-0.5},{"axis":"isolation","delta":0.55},{"axis":"snapshotting","delta":0.45},{"axis":"agent-control","delta":-0.15}]} <nil>
}

// A workload that runs strangers' code at a high rate: strong walls are a must,
// a fast start counts double.
func ExampleRankWeighted() {
	need, err := profile.ParseNeed("isolation>=0.8")
	if err != nil {
		fmt.Println(err)
		return
	}
	weights, err := profile.ParseWeights("start-latency=2")
	if err != nil {
		fmt.Println(err)
		return
	}
	fit := profile.Meeting([]profile.Need{need}, profile.Profiles())
	for _, p := range profile.RankWeighted(weights, fit)[:3] {
		fmt.Printf("%s %.3f\n", p.System, weights.Fitness(p))
	}
	// Output:
	// aethervm 0.850
	// firecracker 0.808
	// cloud-hypervisor 0.775
}
