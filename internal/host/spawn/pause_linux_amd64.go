package spawn

const pauseMachine = 62 // EM_X86_64

// pauseCall is where in the code the system call is made.
const pauseCall = 5

var pauseCode = []byte{
	0xb8, 34, 0, 0, 0, // mov eax, pause
	0x0f, 0x05, // syscall
	0xeb, 0xf7, // jmp to the start
}
