# The commands of this repository. `make demo` and `make test` need nothing but
# Go (and, for the race detector, a C compiler, which `make test` looks for).
GO      ?= go
TOOL     = $(GO) tool -modfile=tools/go.mod
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  = -s -w -X aether/cli.version=$(VERSION)
# Debug information, which -s -w leaves out of the binary, is not made either: without it a
# build takes an eighth less. Traces of panics have no need of it.
GCFLAGS  = -dwarf=false
# The compiler collects its garbage less often: a build from cold caches takes a sixth less of the
# processors for a hundred MiB more (333 at most), and what is built is the same.
COMPILE  = GOGC=400 CGO_ENABLED=0 $(GO) build -trimpath
LINUX    = GOOS=linux $(COMPILE)

# What the linker wrote it mapped, page by page, and so it stands in the page cache until the
# host forgets it. What one call writes is there in the largest pieces that the file system
# has, of 2 MiB on ext4, which the kernel maps at once: a start of aether has 170 page faults
# less than that of a copy by cp, of 720.
copy = dd if=bin/$(1) of=bin/$(1).copy bs=268435456 status=none && chmod +x bin/$(1).copy && mv bin/$(1).copy bin/$(1)

.PHONY: all build aether guest net vmm probe demo test check systems soak bench lab-results kvm-lab kvm-bench host-lab runsc runsc-shim youki clean

all: build

# build makes the static binaries: bin/aether, bin/aether-guest, which runs inside the
# sandboxes of other systems and is kept small, bin/aether-net, which holds the
# network of sandboxes that have one, bin/aether-vmm, which runs one machine, and
# bin/aether-probe, which looks out of sandboxes whose isolation is measured.
build: aether guest net vmm probe

aether:
	$(COMPILE) -gcflags='all=$(GCFLAGS)' -ldflags '$(LDFLAGS)' -o bin/aether ./cmd/aether
	@$(call copy,aether)

guest:
	$(LINUX) -tags nethttpomithttp2 -gcflags='all=$(GCFLAGS) -l' -ldflags '-s -w -funcalign=1' -o bin/aether-guest ./cmd/aether-guest
	@$(call copy,aether-guest)

net:
	$(LINUX) -gcflags='all=$(GCFLAGS)' -ldflags '-s -w' -o bin/aether-net ./cmd/aether-net
	@$(call copy,aether-net)

vmm:
	$(LINUX) -gcflags='all=$(GCFLAGS)' -ldflags '-s -w' -o bin/aether-vmm ./cmd/aether-vmm
	@$(call copy,aether-vmm)

probe:
	$(LINUX) -gcflags='all=$(GCFLAGS)' -ldflags '-s -w' -o bin/aether-probe ./cmd/aether-probe
	@$(call copy,aether-probe)

# demo builds what it shows, and no more: the first sandbox of a fresh clone. What that one
# has no need of is built after it, so that bin is whole.
demo: aether
	@./demo.sh
	@$(MAKE) --no-print-directory guest net vmm probe

# test is everything that must hold: the checks, then every test with the race
# detector, on the systems that systems.sh got. It ends with the list of what was
# skipped and why.
test:
	@$(MAKE) --no-print-directory -j2 check systems
	./test.sh

# systems installs what the tests drive, as far as it is to be had.
systems:
	./systems.sh

# check is what needs no running: formatting, vet, staticcheck, every platform.
check:
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	cd examples && $(GO) vet ./...
	$(TOOL) staticcheck ./...
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) vet ./...
	CGO_ENABLED=0 GOOS=darwin GOARCH=arm64 $(GO) build -o /dev/null ./cmd/aether

# soak repeats what goes wrong seldom, for an hour or so: long tests at their full
# counts, and every fuzz target. make soak SHARE=10 does a tenth of it, PART=long or
# PART=fuzz the one or the other.
soak:
	SHARE=$(or $(SHARE),1) PART=$(PART) ./soak.sh

# bench measures the engines on this host, beside their peers, in one run.
bench: build
	PATH="$(CURDIR)/bin:$$PATH" $(GO) run ./cmd/bench

# lab-results makes the whole run of the lab that docs/results keeps, with its report and
# picture: as root, on a quiet host that has these systems, a Docker daemon and a kernel for
# machines (aether kernel install). One that was stopped goes on; for a new one, remove
# docs/results first.
LAB_SYSTEMS = cell,bubblewrap,runc,crun,systemd-nspawn,lxc,docker,gvisor,qemu-kvm
lab-results: build
	PATH="$(CURDIR)/bin:$$PATH" bin/aether lab run --systems $(LAB_SYSTEMS) --out docs/results

# runsc makes gVisor's program for driver/gvisor, and runsc-shim the one by which
# containerd uses it, of a pinned version, which restores compare: two minutes of
# processor time when nothing is cached.
GVISOR = gvisor.dev/gvisor
RUNSC  = cd tools/runsc && $(LINUX) \
	-ldflags "-s -w -X $(GVISOR)/runsc/version.version=$$($(GO) list -m -f '{{.Version}}' $(GVISOR))"
runsc:
	$(RUNSC) -o ../../bin/runsc $(GVISOR)/runsc

runsc-shim:
	$(RUNSC) -o ../../bin/containerd-shim-runsc-v1 $(GVISOR)/shim

# youki makes the runtime of that name for driver/oci, with cargo (Rust 1.88 or newer)
# and a C compiler for linking: three minutes of processor time when nothing is cached.
# It is not optimized, which saves time and shows in no test.
YOUKI       = 0.7.0
YOUKI_CACHE = $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/aether-youki/$(YOUKI)
youki: $(YOUKI_CACHE)/bin/youki
	mkdir -p bin && cp $< bin/youki

$(YOUKI_CACHE)/bin/youki:
	CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_STRIP=true \
		cargo install youki --version $(YOUKI) --locked --no-default-features --features v1 --root $(YOUKI_CACHE) --target-dir $(YOUKI_CACHE)/target

# kvm-bench measures aethervm beside Firecracker there, interleaved in one machine:
# make kvm-bench BINARY=path [ARGS='-rounds 5 -crowds 2 -json docs/results/kvm-lab.json']
kvm-bench:
	$(GO) run ./cmd/kvmtest -compare -crowds 1 -binary $(BINARY) $(ARGS)

# kvm-lab runs a driver's tests inside a machine that has KVM, where the host has
# none: make kvm-lab DRIVER=firecracker BINARY=path [JAILER=path]
kvm-lab:
	$(GO) run ./cmd/kvmtest -driver $(DRIVER) $(if $(BINARY),-binary $(BINARY)) $(if $(JAILER),-jailer $(JAILER))

# host-lab boots stock machines of Debian, emulated where there is no KVM, and runs
# the programs and their tests there: make host-lab [HOST=debian-12] [SHORT=1]
host-lab:
	$(GO) run ./cmd/hosttest $(if $(HOST),-host $(HOST)) $(if $(SHORT),-short)

clean:
	rm -rf bin
