/* shape: what shape.c has of a program that it counts. Between two marks the program does
 * BENCH_OPS operations in steady state, after BENCH_WARM; it was asked to by BENCH_SHAPE. */
#ifndef HEDDLE_BENCH_SHAPE_H
#define HEDDLE_BENCH_SHAPE_H

enum { BENCH_OPS = 16, BENCH_WARM = 512 };

/* bench_mark: a trap, which would end a program that nobody traces. */
static inline void bench_mark(void)
{
	__asm__ volatile("int3" ::: "memory");
}

#endif
