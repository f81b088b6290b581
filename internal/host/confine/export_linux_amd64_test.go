package confine

import (
	"bufio"
	"encoding/json"
	"strings"
	"testing"

	"aether/internal/host/cgroup"
	"aether/internal/host/spawn"

	"golang.org/x/sys/unix"
)

// NoGroup is accounted nowhere.
var NoGroup cgroup.Way

// AttackScene shows the attacks of these tests to those of forks, which are outside of
// this package because what forks cells imports it.
type AttackScene struct{ scene *scene }

// NewAttackScene sets the scene.
func NewAttackScene(t *testing.T) AttackScene { return AttackScene{newScene(t)} }

// Host is the one that has the canaries.
func (s AttackScene) Host() *Host { return s.scene.host }

// Boot makes a cell in which the attacker is shown.
func (s AttackScene) Boot(t *testing.T) *Cell { return s.scene.boot(t) }

// Users are who attacks, by name.
func (s AttackScene) Users() map[string]uint32 {
	users := map[string]uint32{}
	for _, who := range s.scene.whos() {
		users[who.name] = who.id
	}
	return users
}

// Attacks are their names.
func (s AttackScene) Attacks() (names []string) {
	for _, a := range attacks {
		names = append(names, a.name)
	}
	return append(names, abiAttack)
}

// abiAttack is the attack by system calls of another architecture.
const abiAttack = "abi"

// Order is the program of an attack as a line of JSON: path, args and env.
func (s AttackScene) Order(t *testing.T, attack string) string {
	t.Helper()
	known, err := json.Marshal(s.scene.facts)
	if err != nil {
		t.Fatal(err)
	}
	order, err := json.Marshal(map[string]any{"path": attacker, "args": []string{"a-" + attack},
		"env": map[string]string{"PATH": "/bin", attackVariable: attack, factsVariable: string(known), "GORACE": "atexit_sleep_ms=0"}})
	if err != nil {
		t.Fatal(err)
	}
	return string(order)
}

// Judge says what an attack in a cell should not have done.
func (s AttackScene) Judge(t *testing.T, user, attack, out string, status spawn.Status, cell *Cell) {
	t.Helper()
	if attack == abiAttack {
		if status.Signal != unix.SIGSYS {
			t.Errorf("a 32-bit system call: %+v, %q", status, out)
		}
		return
	}
	if status.Code != 0 || status.Signal != 0 {
		t.Fatalf("%+v: %s", status, out)
	}
	for _, a := range attacks {
		if a.name == attack {
			s.scene.compare(t, user, a.trials(s.scene.facts), parseAnswers(t, out))
		}
	}
	s.scene.untouched(t, cell)
}

func parseAnswers(t *testing.T, out string) map[string]answer {
	t.Helper()
	list := map[string]answer{}
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			t.Logf("it says: %s", lines.Text())
			continue
		}
		list[a.Trial] = a
	}
	return list
}
