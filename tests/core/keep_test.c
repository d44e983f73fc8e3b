/* What is kept for good: whole, zeroed, each piece on cache lines of its own, whoever asks beside
 * others; small at first, and then in huge pages. */
#include "keep.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "../test.h"
#include "gmp.h"
#include "os.h"

enum { THREADS = 4, PIECES = 4000, KIB = 1024, FEW = 30, MANY = 8000, RECORD = 1700 };

struct piece {
	uint64_t *at;
	size_t n;
};

static struct piece pieces[THREADS][PIECES];

/* Its place tells what is in it. */
static void *keeps(void *arg)
{
	struct piece *mine = arg;

	for (size_t i = 0; i < PIECES; i++) {
		size_t n = 1 + i * 7919 % 200;
		uint64_t *at = keep(n * sizeof(*at));
		EXPECT(!os_failed(at));
		EXPECT_EQ((uintptr_t)at % CACHE_LINE, 0);
		for (size_t k = 0; k < n; k++) {
			EXPECT_EQ(at[k], 0);
			at[k] = (uint64_t)(uintptr_t)&at[k];
		}
		mine[i] = (struct piece){ at, n };
	}
	return NULL;
}

TEST(no_two_have_the_same)
{
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, keeps, pieces[i]), 0);
	for (int i = 0; i < THREADS; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	for (int i = 0; i < THREADS; i++)
		for (int j = 0; j < PIECES; j++)
			for (size_t k = 0; k < pieces[i][j].n; k++)
				EXPECT_EQ(pieces[i][j].at[k],
					  (uint64_t)(uintptr_t)&pieces[i][j].at[k]);
}

/* The sum of a figure of /proc/self/smaps, as "Rss:", of the mapping in which that is; in KiB. */
static long figure_at(const void *at, const char *name)
{
	unsigned long from = 0, to = 0;
	FILE *f = fopen("/proc/self/smaps", "r");
	char line[300];
	long kib = 0;

	EXPECT(f != NULL);
	while (fgets(line, sizeof(line), f)) {
		unsigned long a, b;
		if (sscanf(line, "%lx-%lx ", &a, &b) == 2) {
			from = a;
			to = b;
		} else if (from <= (unsigned long)(uintptr_t)at &&
			   (unsigned long)(uintptr_t)at < to &&
			   strncmp(line, name, strlen(name)) == 0) {
			sscanf(line + strlen(name), "%ld", &kib);
		}
	}
	fclose(f);
	return kib;
}

static char *keep_records(int n)
{
	char *at = NULL;

	for (int i = 0; i < n; i++) {
		at = keep(RECORD);
		EXPECT(!os_failed(at));
		*at = 1;
	}
	return at;
}

TEST(few_pieces_take_little_memory)
{
	char *at = keep_records(FEW);

	EXPECT(figure_at(at, "Rss:") <= 64);
	EXPECT_EQ(figure_at(at, "AnonHugePages:"), 0);
}

/* Are there any to be had, by who asks for them? */
static bool has_huge_pages(void)
{
	enum { SIZE = 8 * 1024 * KIB };
	char *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long kib;

	EXPECT(at != MAP_FAILED);
	madvise(at, SIZE, MADV_HUGEPAGE);
	memset(at, 1, SIZE);
	kib = figure_at(at, "AnonHugePages:");
	munmap(at, SIZE);
	return kib > 0;
}

TEST(many_pieces_lie_in_huge_pages)
{
	if (!has_huge_pages()) {
		puts("  skipped: no huge pages");
		return;
	}
	EXPECT(figure_at(keep_records(MANY), "AnonHugePages:") > 0);
}

TEST(a_large_one_is_by_itself)
{
	char *small = keep(RECORD), *large = keep(300 * (size_t)KIB);

	EXPECT(!os_failed(small));
	EXPECT(!os_failed(large));
	EXPECT_EQ(munmap(large, 300 * (size_t)KIB), 0);
	*small = 1;
	EXPECT(!os_failed(keep(RECORD)));
}
