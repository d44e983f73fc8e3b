/* OpenMP: loops, reductions, tasks, sections that are critical or ordered, barriers. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#include "must.h"

static long fib(int n)
{
	long a, b;

	if (n < 12)
		return n < 2 ? n : fib(n - 1) + fib(n - 2);
#pragma omp task shared(a)
	a = fib(n - 1);
	b = fib(n - 2);
#pragma omp taskwait
	return a + b;
}

int main(void)
{
	long sum = 0, tree = 0, critical = 0, locked = 0, next = 0, phase[64] = { 0 };
	int team = omp_get_max_threads();
	omp_lock_t lock;

#pragma omp parallel for reduction(+ : sum) schedule(dynamic, 64)
	for (long i = 0; i < 2000000; i++)
		sum += i & 3;
	MUST(sum == 3000000);
#pragma omp parallel
#pragma omp single
	tree = fib(24);
	MUST(tree == 46368);
	omp_init_lock(&lock);
#pragma omp parallel
	for (int i = 0; i < 2000; i++) {
#pragma omp critical
		critical++;
		omp_set_lock(&lock);
		locked++;
		omp_unset_lock(&lock);
		if (i % 100 == 0) {
#pragma omp barrier
		}
	}
	MUST(critical == 2000L * team && locked == 2000L * team);
#pragma omp parallel for ordered schedule(static, 1)
	for (int i = 0; i < 1000; i++) {
#pragma omp ordered
		{
			MUST(next == i);
			next++;
		}
	}
#pragma omp parallel
	for (int r = 0; r < 300; r++) {
		int me = omp_get_thread_num();
		phase[me] = r;
#pragma omp barrier
		MUST(phase[(me + 1) % omp_get_num_threads()] == r);
#pragma omp barrier
	}
	puts("all good");
	return 0;
}
