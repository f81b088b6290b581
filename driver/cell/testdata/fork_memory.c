// Changes its memory at random, in every way that there is, and knows what must
// be where. "work SEED COUNT" makes so many changes and looks at everything,
// "blind SEED COUNT" does not look, so that what was not changed is not touched;
// "born" looks at everything in a copy, where some memory must be empty.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { most = 48, few = 24, pages = 600, page = 4096 };

typedef struct {
	char *at;
	int pages, file, wiped, readonly;
	uint64_t want[pages]; // the first word of each page; the last is the same
} region;

static region regions[most];
static int count, file = -1, toggles; // whether memory is to be empty in copies changes at any time

static void die(const char *what, int n, int p) {
	printf("%s: region %d of %d, page %d\n", what, n, count, p);
	fflush(stdout);
	_exit(1);
}

static uint64_t original(int p) { return 0x1111111100000000u + p; }

static void make_file(void) {
	file = open("/tmp/mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
	for (int p = 0; p < few; p++) {
		uint64_t words[page / 8] = {0};
		words[0] = words[page / 8 - 1] = original(p);
		if (write(file, words, page) != page)
			_exit(2);
	}
}

static void add(void *hint) {
	if (count == most)
		return;
	region *r = &regions[count];
	memset(r, 0, sizeof *r);
	r->file = rand() % 4 == 0;
	r->pages = 1 + rand() % (!r->file && rand() % 8 == 0 ? pages : few);
	int flags = r->file ? MAP_PRIVATE : MAP_PRIVATE | MAP_ANONYMOUS;
	r->at = mmap(hint, (size_t)r->pages * page, PROT_READ | PROT_WRITE, flags, r->file ? file : -1, 0);
	if (r->at == MAP_FAILED)
		die("mmap", count, 0);
	for (int p = 0; p < r->pages; p++)
		r->want[p] = r->file ? original(p) : 0;
	if (flags == (MAP_PRIVATE | MAP_ANONYMOUS) && hint == NULL && rand() % 4 == 0)
		r->wiped = madvise(r->at, (size_t)r->pages * page, MADV_WIPEONFORK) == 0;
	count++;
}

static void drop(int n) {
	munmap(regions[n].at, (size_t)regions[n].pages * page);
	regions[n] = regions[--count];
}

static void put(region *r, int p) {
	if (r->readonly)
		return;
	uint64_t value = ((uint64_t)rand() << 32) | rand();
	uint64_t *words = (uint64_t *)(r->at + (size_t)p * page);
	words[0] = words[page / 8 - 1] = value;
	r->want[p] = value;
}

static void move(region *r) {
	if (r->file || r->readonly)
		return;
	int size = 1 + rand() % few;
	char *to = mremap(r->at, (size_t)r->pages * page, (size_t)size * page, MREMAP_MAYMOVE);
	if (to == MAP_FAILED)
		return;
	for (int p = r->pages; p < size; p++)
		r->want[p] = 0;
	r->at = to;
	r->pages = size;
}

// again gives a region's place to a new one, which is empty.
static void again(int n) {
	region old = regions[n];
	if (old.wiped)
		return;
	drop(n);
	add(old.at);
}

static int deep(int n) {
	volatile char room[page];
	room[0] = 1;
	return n == 0 ? 0 : deep(n - 1) + room[0];
}

static void change(void) {
	if (count == 0 || rand() % 8 == 0)
		return add(NULL);
	int n = rand() % count;
	region *r = &regions[n];
	int p = rand() % r->pages;
	switch (rand() % 12) {
	case 0:
		return drop(n);
	case 1:
		return move(r);
	case 2:
		return again(n);
	case 3:
		if (madvise(r->at + (size_t)p * page, page, MADV_DONTNEED) == 0)
			r->want[p] = r->file ? original(p) : 0;
		return;
	case 4:
		r->readonly = !r->readonly;
		mprotect(r->at, (size_t)r->pages * page, r->readonly ? PROT_READ : PROT_READ | PROT_WRITE);
		return;
	case 5:
		if (toggles && !r->file && madvise(r->at, (size_t)r->pages * page, r->wiped ? MADV_KEEPONFORK : MADV_WIPEONFORK) == 0)
			r->wiped = !r->wiped;
		return;
	case 6:
		if (deep(rand() % 200) < 0)
			_exit(3);
		return;
	case 7:
		if (sbrk(page * (1 + rand() % 8)) == (void *)-1)
			_exit(4);
		return;
	}
	put(r, p);
}

static void look(void) {
	for (int n = 0; n < count; n++)
		for (int p = 0; p < regions[n].pages; p++) {
			uint64_t *words = (uint64_t *)(regions[n].at + (size_t)p * page);
			if (words[0] != regions[n].want[p] || words[page / 8 - 1] != regions[n].want[p]) {
				printf("%lx and not %lx, file %d, wiped %d: ", words[0], regions[n].want[p], regions[n].file, regions[n].wiped);
				die("wrong", n, p);
			}
		}
}

int main(int argc, char **argv) {
	(void)argv;
	toggles = argc > 1;
	make_file();
	puts("primed");
	fflush(stdout);
	char line[128];
	while (fgets(line, sizeof line, stdin)) {
		unsigned seed, changes;
		int blind = strncmp(line, "blind", 5) == 0;
		if (sscanf(line, "%*s %u %u", &seed, &changes) == 2) {
			srand(seed);
			while (changes-- > 0)
				change();
		} else {
			for (int n = 0; n < count; n++)
				if (regions[n].wiped)
					memset(regions[n].want, 0, sizeof regions[n].want);
		}
		if (!blind)
			look();
		printf("%d right\n", count);
		fflush(stdout);
	}
	return 0;
}
