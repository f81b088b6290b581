// A line on standard input that has an exclamation mark changes a letter of the
// program's own text, as debuggers do; every line is answered with it.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

__attribute__((section(".text,\"ax\",@progbits#"))) static const volatile char letter = 'a';

static int change(void) {
	char next = letter + 1;
	int memory = open("/proc/self/mem", O_RDWR);
	if (memory < 0)
		return 1;
	int failed = pwrite(memory, &next, 1, (off_t)&letter) != 1;
	return close(memory) || failed;
}

int main(void) {
	char line[64];
	puts("primed");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		if (strchr(line, '!') && change())
			return 1;
		printf("%c\n", letter);
		fflush(stdout);
	}
	return 0;
}
