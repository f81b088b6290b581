// Package cloudhypervisor drives Cloud Hypervisor: what it is told over its API.
// Everything that machines of other monitors have as well is in driver/vmm.
package cloudhypervisor
