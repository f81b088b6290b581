package lifecycle

const machine = 62 // EM_X86_64

var (
	writeCode = []byte{
		0xb8, 1, 0, 0, 0, // mov eax, write
		0xbf, 1, 0, 0, 0, // mov edi, 1
		0x48, 0x8d, 0x35, 0xeb, 0xff, 0xff, 0xff, // lea rsi, the message
		0xba, 1, 0, 0, 0, // mov edx, 1
		0x0f, 0x05, // syscall
	}
	exitCode = []byte{
		0xb8, 231, 0, 0, 0, // mov eax, exit_group
		0x31, 0xff, // xor edi, edi
		0x0f, 0x05, // syscall
	}
	sleepCode = []byte{
		0xb8, 34, 0, 0, 0, // mov eax, pause
		0x0f, 0x05, // syscall
		0xeb, 0xf7, // jmp to the start of the sleep
	}
)
