package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"aether/engine"
	"aether/guest"
	"aether/internal/host/features"
	"aether/sandbox"
)

func doctorCommand(drivers *drivers) *cobra.Command {
	return doctorWith(func(ctx context.Context) []features.Facility {
		return append(features.Survey(ctx), tryRun(ctx, drivers))
	}, askDaemon)
}

// lookTime is how long a daemon may look at its paused sandboxes.
const lookTime = time.Minute

// askDaemon asks a daemon that runs for paused sandboxes which cannot be resumed, and what
// it keeps of recipes. Where none runs, or another user's, there is nothing to ask.
func askDaemon(ctx context.Context) (found engine.Diagnosis, err error) {
	client, err := daemonClient()
	if err != nil {
		return found, err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	found, err = client.Doctor(ctx)
	switch sandbox.ClassOf(err) {
	case sandbox.Unavailable, sandbox.Denied:
		return engine.Diagnosis{}, nil
	}
	return found, err
}

// builtIn is the engine whose ability to run decides doctor's verdict.
const builtIn = "cell"

// tryRun does what `aether run` does, to the first byte of a command's output:
// that every facility is there does not say that they work together.
func tryRun(ctx context.Context, drivers *drivers) features.Facility {
	f := features.Facility{Name: "run", Required: true, Detail: "a command ran in a sandbox, and its output arrived",
		Cost: "no command runs in the built-in engine"}
	driver, err := drivers.named(builtIn)
	if err == nil {
		err = sayWord(ctx, driver)
	}
	return features.Judge(f, err)
}

// sayWord has a command of a new sandbox say something.
func sayWord(ctx context.Context, driver sandbox.Driver) (err error) {
	instance, err := driver.Create(ctx, sandbox.Spec{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, instance.Destroy(context.WithoutCancel(ctx))) }()
	const word = "aether"
	var said bytes.Buffer
	client := guest.ClientFor(instance, guest.ClientOptions{})
	running, err := client.Start(ctx, guest.Cmd{Path: "sh", Args: []string{"-c", "echo " + word}, Stdout: &said})
	if err != nil {
		return err
	}
	status, err := running.Wait()
	if err == nil && (status.Code != 0 || strings.TrimSpace(said.String()) != word) {
		err = fmt.Errorf("the command ended with %d and said %.80q", status.Code, said.String())
	}
	return err
}

// doctorWith takes the survey and the daemon's answer, so that hosts other than this one
// can be shown.
func doctorWith(survey func(context.Context) []features.Facility, ask func(context.Context) (engine.Diagnosis, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Explain what this host offers to sandboxes, and what its gaps cost",
		Long: "Try everything that sandboxes can use on this host, as this user: namespaces, control\n" +
			"groups, filters, virtualization; then run a command in one, as `aether run` does. For each\n" +
			"gap, say what it costs and what would mend it. If a daemon runs, list the paused sandboxes\n" +
			"that this host can no longer resume, and why, and say how much it keeps of recipes.\n" +
			"The exit status is 0 if the built-in engine can run here, and 1 if it cannot.",
		Example: `  aether doctor
  aether doctor --json
  sudo aether doctor`,
		Args: noArguments,
	}
	asJSON := jsonFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := diagnosis{Facilities: survey(cmd.Context())}
		d.Usable = features.Sufficient(d.Facilities)
		found, err := ask(cmd.Context())
		if err != nil {
			return err
		}
		if d.Stuck = found.Stuck; found.Layers.Count > 0 {
			d.Layers = &found.Layers
		}
		if err := d.print(cmd, *asJSON); err != nil {
			return err
		}
		if !d.Usable {
			return exitCode(1)
		}
		return nil
	}
	return cmd
}

// diagnosis is the JSON answer.
type diagnosis struct {
	// Usable says that the built-in engine can run.
	Usable     bool                `json:"usable"`
	Facilities []features.Facility `json:"facilities"`
	// Stuck are paused sandboxes of the daemon that cannot be resumed here.
	Stuck []engine.Stuck `json:"stuck,omitempty"`
	// Layers are what the daemon keeps of recipes, if anything.
	Layers *engine.LayerUse `json:"layers,omitempty"`
}

func (d diagnosis) print(cmd *cobra.Command, asJSON bool) error {
	if asJSON {
		return printJSON(cmd, d)
	}
	s := screenOf(cmd.OutOrStdout())
	return printText(cmd, d.table(s.width).render(s)+"\n\n"+d.verdict(s)+d.stuckText(s)+d.layersText())
}

// layersText says how much is kept of recipes, and how to have it removed.
func (d diagnosis) layersText() string {
	if d.Layers == nil {
		return ""
	}
	return fmt.Sprintf("\n\nthe daemon keeps %d layers of recipes, %s: aether prune --dry-run names them", d.Layers.Count, sizeText(&d.Layers.Bytes))
}

// stuckText lists the paused sandboxes that cannot be resumed.
func (d diagnosis) stuckText(s screen) string {
	if len(d.Stuck) == 0 {
		return ""
	}
	t := table{titles: []string{"paused sandbox", "tenant", "files"}}
	for _, one := range d.Stuck {
		files := "can be had"
		if !one.Files {
			files = "lost"
		}
		t.rows = append(t.rows, []cell{text(visible(one.ID)), text(visible(one.Tenant)), text(files)})
	}
	t = t.withNotes("why it cannot be resumed", func(row int) []string { return stuckNotes(d.Stuck[row]) }, s.width)
	return "\n\n" + t.render(s)
}

func stuckNotes(one engine.Stuck) []string {
	lines := []string{visible(oneLine(one.Reason))}
	if one.Remedy != "" {
		lines = append(lines, "mends: "+visible(one.Remedy))
	}
	return lines
}

// table wraps its last column so that it fits into width, if that is not 0.
func (d diagnosis) table(width int) table {
	t := table{titles: []string{"", "facility"}}
	for _, f := range d.Facilities {
		t.rows = append(t.rows, []cell{symbol(f), text(f.Name)})
	}
	return t.withNotes("found", func(row int) []string { return findings(d.Facilities[row]) }, width)
}

// symbol is red only for what keeps the built-in engine from running.
func symbol(f features.Facility) cell {
	switch {
	case f.State == features.OK:
		return cell{"✓", green}
	case f.State == features.Limited:
		return cell{"!", yellow}
	case f.Required:
		return cell{"✗", red}
	}
	return cell{"✗", yellow}
}

func findings(f features.Facility) []string {
	lines := []string{oneLine(f.Detail)}
	if f.Cost != "" {
		lines = append(lines, "costs: "+f.Cost)
	}
	if f.Remedy != "" {
		lines = append(lines, "mends: "+f.Remedy)
	}
	return lines
}

func (d diagnosis) verdict(s screen) string {
	if !d.Usable {
		return s.paint(red, "The built-in engine cannot run on this host.")
	}
	gaps := 0
	for _, f := range d.Facilities {
		if f.State != features.OK {
			gaps++
		}
	}
	if gaps == 0 {
		return s.paint(green, "The built-in engine can run on this host, which lacks nothing.")
	}
	return s.paint(green, fmt.Sprintf("The built-in engine can run on this host. Gaps: %d.", gaps))
}
