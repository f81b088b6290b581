// Has a timer run a function of its own as often as it can. In a copy of it that
// function must not run before everything that confines a command is in place:
// it looks, and what it has seen is the answer to every line.
#define _GNU_SOURCE
#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static volatile int filter = 2, privileges = 1;
static volatile unsigned capabilities;

// call uses nothing of the C library, whose variables may not be there yet.
static inline __attribute__((always_inline)) long call(long nr, long a, long b, long c) {
	long result;
	register long r10 __asm__("r10") = 0, r8 __asm__("r8") = 0;
	__asm__ volatile("syscall" : "=a"(result) : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8) : "rcx", "r11", "memory");
	return result;
}

static struct __user_cap_header_struct head;
static struct __user_cap_data_struct data[2];

static void look(int signal) {
	(void)signal;
	head.version = _LINUX_CAPABILITY_VERSION_3;
	data[0].effective = data[1].effective = 0;
	call(SYS_capget, (long)&head, (long)data, 0);
	if (data[0].effective | data[1].effective)
		capabilities = data[0].effective | data[1].effective;
	int mode = call(SYS_prctl, PR_GET_SECCOMP, 0, 0);
	if (mode != 2)
		filter = mode;
	if (call(SYS_prctl, PR_GET_NO_NEW_PRIVS, 0, 0) != 1)
		privileges = 0;
}

int main(int argc, char **argv) {
	static char memory[1 << 16];
	stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
	struct sigaction action = {.sa_handler = look, .sa_flags = SA_ONSTACK | SA_RESTART};
	sigaltstack(&stack, NULL);
	sigaction(SIGALRM, &action, NULL);
	int every = argc > 1 ? atoi(argv[1]) : 1000;
	struct itimerval often = {{0, every}, {0, every}};
	setitimer(ITIMER_REAL, &often, NULL);
	puts("primed");
	fflush(stdout);
	char line[64];
	while (fgets(line, sizeof line, stdin) || errno == EINTR) {
		printf("filter %d, no new privileges %d, capabilities %x\n", filter, privileges, capabilities);
		fflush(stdout);
	}
	return 0;
}
