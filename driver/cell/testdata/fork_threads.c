// Eight threads with a mutex, a condition and a variable of their own each: a
// line on standard input is a number that every thread adds to its own count,
// once for each of a hundred turns that they take.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { threads = 8, turns = 100 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static long add, round_no, total, done;
static int turn;
static __thread long own;

static void *count(void *number) {
	int me = (int)(long)number;
	long seen = 0;
	own = me;
	for (;;) {
		pthread_mutex_lock(&lock);
		while (round_no == seen)
			pthread_cond_wait(&changed, &lock);
		seen++;
		for (int i = 0; i < turns; i++) {
			while (turn != me)
				pthread_cond_wait(&changed, &lock);
			own += add;
			turn = (turn + 1) % threads;
			pthread_cond_broadcast(&changed);
		}
		total += own;
		done++;
		pthread_cond_broadcast(&changed);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

int main(void) {
	for (long i = 0; i < threads; i++) {
		pthread_t t;
		if (pthread_create(&t, NULL, count, (void *)i))
			return 1;
	}
	char line[64];
	puts("primed");
	fflush(stdout);
	while (fgets(line, sizeof line, stdin)) {
		pthread_mutex_lock(&lock);
		add = atol(line);
		total = done = 0;
		round_no++;
		pthread_cond_broadcast(&changed);
		while (done < threads)
			pthread_cond_wait(&changed, &lock);
		printf("%ld\n", total);
		fflush(stdout);
		pthread_mutex_unlock(&lock);
	}
	return 0;
}
