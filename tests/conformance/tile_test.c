/* Tiles, where the cpu has them (AMX): they are a thread's own, and stay with it in calls, though
 * to the ABI they need not, and wherever it is stopped. */
#include "threads.h"

#include <string.h>
#include <sys/syscall.h>

#ifdef __x86_64__
#include <immintrin.h>

enum { THREADS = 6, TURNS = 500, ROUNDS = 20000, TILE = 1024, ROW = 64 };

/* False: there are none. */
static bool permitted(void)
{
	enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };

	return syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

struct config {
	uint8_t palette, start, reserved[14];
	uint16_t bytes[16];
	uint8_t rows[16];
};

#define TILES __attribute__((target("amx-tile")))

TILES static void configure(uint8_t rows)
{
	struct config c;

	memset(&c, 0, sizeof(c));
	c.palette = 1;
	for (int i = 0; i < 8; i++) {
		c.bytes[i] = ROW;
		c.rows[i] = rows;
	}
	_tile_loadconfig(&c);
}

static void wait_a_moment(void)
{
	for (volatile int i = 0; i < 5000; i++)
		continue;
}

/* As many rows as the argument says. */
TILES static void keep(uint8_t rows, int rounds, void (*meanwhile)(void))
{
	unsigned char in[TILE], out[TILE];

	configure(rows);
	for (int i = 0; i < rounds; i++) {
		memset(in, rows + i, sizeof(in));
		memset(out, 0, sizeof(out));
		_tile_loadd(3, in, ROW);
		meanwhile();
		_tile_stored(3, out, ROW);
		EXPECT(memcmp(in, out, rows * (size_t)ROW) == 0);
	}
	_tile_release();
}

static void yields(void)
{
	sched_yield();
}

static void *keeps_in_calls(void *arg)
{
	keep(*(uint8_t *)arg, TURNS, yields);
	return arg;
}

TEST(tiles_stay_in_a_call_in_which_others_run)
{
	static uint8_t rows[THREADS] = { 16, 8, 3, 1, 16, 5 };
	pthread_t t[THREADS];

	if (!permitted())
		return;
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, keeps_in_calls, &rows[i]), 0);
	join(t, THREADS);
}

static _Atomic bool over;

static void *keeps_when_stopped(void *arg)
{
	if (permitted())
		keep(16, ROUNDS, wait_a_moment);
	over = true;
	return arg;
}

static void *computes(void *arg)
{
	while (!over)
		wait_a_moment();
	return arg;
}

/* The others, whose kernel threads it comes to, have none. */
TEST(tiles_stay_with_one_that_is_stopped)
{
	pthread_t t[THREADS];

	start(t, THREADS - 1, computes, NULL);
	start(&t[THREADS - 1], 1, keeps_when_stopped, NULL);
	join(t, THREADS);
}
#else
TEST(there_are_no_tiles)
{
}
#endif
