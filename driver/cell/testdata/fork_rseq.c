// A thread spins within a restartable sequence, which the kernel begins anew
// whenever it has taken the processor away. A line on standard input asks whether
// it is still one: "whole", or "torn" if the kernel has forgotten of it and the
// thread went on in the middle. Older C libraries have none.
#include <stdio.h>
#if __has_include(<sys/rseq.h>)
#include <pthread.h>
#include <sys/rseq.h>
#include <time.h>

static struct rseq *volatile mine;

static void *spin(void *unused) {
	struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);
	mine = area;
	__asm__ volatile(
		".pushsection __rseq_cs, \"aw\"\n\t"
		".balign 32\n"
		"5:\n\t"
		".long 0, 0\n\t"
		".quad 1f, 2f - 1f, 4f\n\t"
		".popsection\n"
		"3:\n\t"
		"leaq 5b(%%rip), %%rax\n\t"
		"movq %%rax, %0\n"
		"1:\n\t"
		"jmp 1b\n"
		"2:\n\t"
		"ud2\n\t"
		".byte 0x0f, 0xb9, 0x3d\n\t"
		".long %c1\n"
		"4:\n\t"
		"jmp 3b\n"
		: "+m"(area->rseq_cs)
		: "i"(RSEQ_SIG)
		: "rax", "memory");
	return unused;
}

static int whole(void) {
	for (int i = 0; i < 100; i++) {
		if (__atomic_load_n(&mine->rseq_cs, __ATOMIC_RELAXED))
			return 1;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	return 0;
}

int main(void) {
	pthread_t t;
	if (__rseq_size == 0 || pthread_create(&t, NULL, spin, NULL))
		return 1;
	while (!mine)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	char line[64];
	puts(whole() ? "primed" : "it never was one");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		puts(whole() ? "whole" : "torn");
		fflush(stdout);
	}
	return 0;
}
#else
int main(void) {
	puts("none");
	return 0;
}
#endif
