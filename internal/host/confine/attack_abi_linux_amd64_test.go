package confine

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// foreignABI makes a system call by the 32-bit entry, whose numbers mean other
// calls. Whoever comes back from it says so.
func foreignABI(facts) error {
	memory, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	copy(memory, []byte{
		0xb8, 20, 0, 0, 0, // mov eax, getpid
		0xcd, 0x80, // int 0x80
		0xc3, // ret
	})
	code := &memory[0]
	entry := &code
	(*(*func())(unsafe.Pointer(&entry)))()
	fmt.Println("came back")
	return nil
}
