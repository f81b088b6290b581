// Does one thing, named by its argument, that is hard to stop in the midst of or
// to copy, and meanwhile answers every number on standard input with that number
// plus a count of the answers so far.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static void fail(const char *what) {
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static long answered;
static volatile int wrong; // set when something is not as it must be
static char **arguments;

static void answer(void) {
	char line[64];
	while (fgets(line, sizeof line, stdin) || errno == EINTR) {
		if (wrong)
			printf("wrong %d\n", wrong);
		else
			printf("%ld\n", atol(line) + answered++);
		fflush(stdout);
	}
}

static pthread_t thread(void *(*run)(void *), void *arg) {
	pthread_t t;
	while (pthread_create(&t, NULL, run, arg))
		;
	return t;
}

static void *nothing(void *arg) { return arg; }

static void *makes_threads(void *arg) {
	for (long i = 0;; i++) {
		void *got;
		pthread_join(thread(nothing, (void *)i), &got);
		if ((long)got != i)
			wrong = 1;
	}
	return arg;
}

static void *makes_maps(void *arg) {
	for (;;) {
		size_t size = 4096 * (1 + rand() % 64);
		char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			continue;
		p[0] = p[size - 1] = 1;
		mprotect(p, 4096, PROT_READ);
		if (p[0] != 1 || p[size - 1] != 1)
			wrong = 2;
		munmap(p, size);
	}
	return arg;
}

static volatile long signals;
static void count(int s) { (void)s; signals++; }

static void *sends_signals(void *arg) {
	for (;;) {
		long before = signals;
		raise(SIGUSR1);
		if (signals == before)
			wrong = 3;
	}
	return arg;
}

// In a copy that was taken between fork and wait, the child is missing.
static void *makes_processes(void *arg) {
	for (;;) {
		pid_t child = fork();
		if (child == 0)
			_exit(7);
		int status;
		if (child < 0)
			continue;
		pid_t got;
		do
			got = waitpid(child, &status, 0);
		while (got < 0 && errno == EINTR);
		if (got != child || WEXITSTATUS(status) != 7)
			wrong = 4;
		usleep(rand() % 3000);
	}
	return arg;
}

static void unmap_vdso(void) {
	char line[256];
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from[8], to[8];
	int n = 0;
	while (fgets(line, sizeof line, f))
		if (strstr(line, "[v") && !strstr(line, "vsyscall") && n < 8 && sscanf(line, "%lx-%lx", &from[n], &to[n]) == 2)
			n++;
	fclose(f);
	while (n-- > 0)
		munmap((void *)from[n], to[n] - from[n]);
}

static void *fixed(uint64_t at, size_t size) {
	char *p = mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (p == MAP_FAILED)
		fail("mmap");
	memset(p, 0x5a, 4096);
	return p;
}

static void many_maps(long n) {
	for (long i = 0; i < n; i++) {
		char *p = mmap(NULL, 4096, i & 1 ? PROT_READ | PROT_WRITE : PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			fail("mmap");
		if (i & 1)
			p[0] = 1;
	}
}

static void many_files(void) {
	struct rlimit l;
	getrlimit(RLIMIT_NOFILE, &l);
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
	for (int i = 0; i < 4000; i++)
		if (open("/dev/null", O_RDWR) < 0)
			break;
}

static ucontext_t home, away;

static void *pending_thread(void *arg) {
	int *ready = arg, got;
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	pthread_kill(pthread_self(), SIGUSR2);
	ready[0] = 1;
	while (ready[1] == 0)
		usleep(1000);
	struct timespec now = {0, 0};
	got = sigtimedwait(&set, NULL, &now);
	if (got != SIGUSR2)
		wrong = 5;
	ready[2] = 1;
	for (;;)
		pause();
	return arg;
}

static volatile int pending[3];

// interrupted makes one kind of call that waits; it must not notice anything.
static void *interrupted(void *kind) {
	struct epoll_event event;
	int poll = epoll_create1(0);
	sigset_t none;
	sigemptyset(&none);
	sigaddset(&none, SIGUSR2);
	pthread_sigmask(SIG_BLOCK, &none, NULL);
	for (;;) {
		int failed = 0;
		struct timespec t = {0, 300 * 1000 * 1000}, before, after;
		clock_gettime(CLOCK_MONOTONIC, &before);
		switch ((long)kind) {
		case 0: failed = epoll_wait(poll, &event, 1, 300) < 0; break;
		case 1: failed = sigtimedwait(&none, NULL, &t) < 0 && errno != EAGAIN; break;
		}
		clock_gettime(CLOCK_MONOTONIC, &after);
		double took = after.tv_sec - before.tv_sec + (after.tv_nsec - before.tv_nsec) / 1e9;
		if (failed)
			wrong = 100 + (long)kind;
		if (took < 0.299)
			wrong = 200 + (long)kind;
	}
	return kind;
}

static void *answers(void *arg) {
	answer();
	exit(0);
	return arg;
}

static void add_filter(void) {
	struct sock_filter allow[] = {{0x06, 0, 0, 0x7fff0000}};
	struct sock_fprog program = {1, allow};
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program))
		fail("seccomp");
}

static void *executes(void *arg) {
	usleep(rand() % 4000);
	execv("/proc/self/exe", arguments);
	return arg;
}

int main(int argc, char **argv) {
	const char *mode = argc > 1 ? argv[1] : "";
	arguments = argv;
	if (!strcmp(mode, "execs")) {
		// The number of answers lives on in the environment.
		answered = getenv("ANSWERED") ? atol(getenv("ANSWERED")) : 0;
		struct timespec t = {0, 500000};
		static char line[64];
		if (!getenv("PRIMED")) {
			setenv("PRIMED", "1", 1);
			puts("primed");
			fflush(stdout);
		}
		fcntl(0, F_SETFL, O_NONBLOCK);
		nanosleep(&t, NULL);
		ssize_t n = read(0, line, sizeof line - 1);
		if (n == 0)
			return 0;
		if (n > 0) {
			printf("%ld\n", atol(line) + answered++);
			fflush(stdout);
			snprintf(line, sizeof line, "%ld", answered);
			setenv("ANSWERED", line, 1);
		}
		srand(getpid() + clock());
		thread(executes, NULL);
		for (;;)
			pause();
	}
	struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART};
	sigaction(SIGUSR1, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	if (!strcmp(mode, "threads"))
		for (int i = 0; i < 3; i++)
			thread(makes_threads, NULL);
	if (!strcmp(mode, "maps"))
		for (int i = 0; i < 3; i++)
			thread(makes_maps, NULL);
	if (!strcmp(mode, "signals"))
		thread(sends_signals, NULL);
	if (!strcmp(mode, "processes"))
		thread(makes_processes, NULL);
	if (!strcmp(mode, "vdso"))
		unmap_vdso();
	if (!strcmp(mode, "middle"))
		for (uint64_t at = 1ul << 44; at < (1ul << 44) + (1ul << 36); at += 1ul << 31)
			fixed(at, 4096);
	if (!strcmp(mode, "everywhere"))
		for (uint64_t at = 1ul << 34; at < 0x7f0000000000; at += 1ul << 34)
			mmap((void *)at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (!strcmp(mode, "mappings"))
		many_maps(60000);
	if (!strcmp(mode, "descriptors"))
		many_files();
	if (!strcmp(mode, "narrow")) {
		struct rlimit l = {16, 16};
		for (int i = 0; i < 30; i++)
			open("/dev/null", O_RDWR);
		setrlimit(RLIMIT_NOFILE, &l);
	}
	if (!strcmp(mode, "lonely")) {
		struct rlimit l = {1, 1};
		thread(makes_maps, NULL);
		thread(makes_maps, NULL);
		setrlimit(RLIMIT_NPROC, &l);
	}
	if (!strcmp(mode, "timer")) {
		struct itimerval often = {{0, 1000}, {0, 1000}};
		setitimer(ITIMER_REAL, &often, NULL);
	}
	if (!strcmp(mode, "filter"))
		add_filter();
	if (!strcmp(mode, "wiped")) {
		char *p = fixed(1ul << 40, 4096);
		madvise(p, 4096, MADV_WIPEONFORK);
	}
	if (!strcmp(mode, "interrupted"))
		for (long kind = 0; kind < 2; kind++)
			thread(interrupted, (void *)kind);
	if (!strcmp(mode, "pending")) {
		thread(pending_thread, (void *)pending);
		while (!pending[0])
			usleep(1000);
	}
	puts("primed");
	fflush(stdout);
	if (!strcmp(mode, "pending")) {
		char line[64];
		while (fgets(line, sizeof line, stdin)) {
			pending[1] = 1;
			while (!pending[2])
				usleep(1000);
			printf("%ld\n", wrong ? -(long)wrong : atol(line) + answered++);
			fflush(stdout);
		}
		return 0;
	}
	if (!strcmp(mode, "odd")) {
		char *low = fixed(0x10000, 1 << 16);
		getcontext(&away);
		away.uc_stack.ss_sp = low;
		away.uc_stack.ss_size = 1 << 16;
		away.uc_link = &home;
		makecontext(&away, answer, 0);
		swapcontext(&home, &away);
		return 0;
	}
	if (!strcmp(mode, "headless")) {
		thread(answers, NULL);
		pthread_exit(NULL);
	}
	answer();
	return 0;
}
