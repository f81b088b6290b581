package all_test

import (
	"context"
	"fmt"
	"log"

	"aether/driver/all"
	"aether/guest"
	"aether/sandbox"
)

// A program that leaves the choice to the host: the first system that can be run
// here and whose boundary is strong enough.
func Example() {
	ctx := context.Background()
	spec := sandbox.Spec{Isolation: sandbox.KernelBoundary}
	for _, driver := range all.Drivers() {
		if driver.Info().Boundary < spec.Isolation {
			continue
		}
		if report := driver.Probe(ctx); !report.Usable {
			log.Printf("%s: %s (%s)", driver.Info().Name, report.Reason, report.Remedy)
			continue
		}
		instance, err := driver.Create(ctx, spec)
		if err != nil {
			log.Fatal(err)
		}
		defer instance.Destroy(ctx)
		client := guest.ClientFor(instance, guest.ClientOptions{})
		defer client.Close()
		kernel, err := client.Read(ctx, "/proc/version")
		if err != nil {
			log.Fatal(err)
		}
		defer kernel.Close()
		fmt.Println(driver.Info().Name, "runs", instance.ID())
		return
	}
}
