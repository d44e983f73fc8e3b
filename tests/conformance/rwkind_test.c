/* Read-write locks of each kind, by attributes and by static initializers: who goes first, and that
 * all of them exclude. The same holds natively. */
#include "event.h"

struct kind {
	pthread_rwlock_t as; /* by its initializer */
	int kind; /* by attributes, or -1 */
	bool writers_first;
};

/* PTHREAD_RWLOCK_PREFER_WRITER_NP prefers nobody: its readers may lock again. */
static const struct kind kinds[] = {
	{ PTHREAD_RWLOCK_INITIALIZER, -1, false },
	{ PTHREAD_RWLOCK_WRITER_NONRECURSIVE_INITIALIZER_NP, -1, true },
	{ PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_PREFER_READER_NP, false },
	{ PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_PREFER_WRITER_NP, false },
	{ PTHREAD_RWLOCK_INITIALIZER, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP, true },
};

enum { KINDS = sizeof(kinds) / sizeof(*kinds), READERS = 4 };

static pthread_rwlock_t lock;
static _Atomic int order, writer_was, inside;
static int written;

static void begin(const struct kind *k)
{
	pthread_rwlockattr_t attr;
	int kind = -1;

	order = writer_was = 0;
	lock = k->as;
	if (k->kind < 0)
		return;
	EXPECT_EQ(pthread_rwlockattr_init(&attr), 0);
	EXPECT_EQ(pthread_rwlockattr_getkind_np(&attr, &kind), 0);
	EXPECT_EQ(kind, PTHREAD_RWLOCK_DEFAULT_NP);
	EXPECT_EQ(pthread_rwlockattr_setkind_np(&attr, 77), EINVAL);
	EXPECT_EQ(pthread_rwlockattr_setkind_np(&attr, -1), EINVAL);
	EXPECT_EQ(pthread_rwlockattr_setkind_np(&attr, k->kind), 0);
	EXPECT_EQ(pthread_rwlockattr_getkind_np(&attr, &kind), 0);
	EXPECT_EQ(kind, k->kind);
	EXPECT_EQ(pthread_rwlock_init(&lock, &attr), 0);
	EXPECT_EQ(pthread_rwlockattr_destroy(&attr), 0);
}

static void *writes(void *arg)
{
	EXPECT_EQ(pthread_rwlock_wrlock(&lock), 0);
	writer_was = ++order;
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

static void *reads(void *arg)
{
	EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0);
	order++;
	EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	return arg;
}

/* What one is told that tries to read now. */
static void *tries(void *arg)
{
	int r = pthread_rwlock_tryrdlock(&lock);

	(void)arg;
	if (r == 0)
		EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	return (void *)(long)r;
}

/* This thread reads, a writer waits, and others come to read. */
TEST(a_writer_that_waits_goes_first_if_its_kind_says_so)
{
	for (int i = 0; i < KINDS; i++) {
		const struct kind *k = &kinds[i];
		pthread_t writer, readers[READERS];
		begin(k);
		EXPECT_EQ(pthread_rwlock_rdlock(&lock), 0);
		start(&writer, 1, writes, NULL);
		settle();
		EXPECT_EQ(on_thread(tries, NULL), k->writers_first ? EBUSY : 0);
		start(readers, READERS, reads, NULL);
		if (!k->writers_first)
			join(readers, READERS);
		else
			settle();
		EXPECT_EQ(order, k->writers_first ? 0 : READERS);
		EXPECT_EQ(writer_was, 0);
		EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
		join(&writer, 1);
		if (k->writers_first)
			join(readers, READERS);
		EXPECT_EQ(order, READERS + 1);
		EXPECT_EQ(writer_was, k->writers_first ? 1 : READERS + 1);
		EXPECT_EQ(on_thread(tries, NULL), 0);
		EXPECT_EQ(pthread_rwlock_destroy(&lock), 0);
	}
}

static void *works(void *arg)
{
	for (int i = 0; i < 200; i++) {
		bool write = i % 4 == 0;
		EXPECT_EQ(write ? pthread_rwlock_wrlock(&lock) : pthread_rwlock_rdlock(&lock), 0);
		if (write) {
			EXPECT_EQ(inside, 0);
			written++;
			inside = 1000;
		} else {
			EXPECT(++inside < 1000);
		}
		if (i % 16 < 2)
			sched_yield();
		inside -= write ? 1000 : 1;
		EXPECT_EQ(pthread_rwlock_unlock(&lock), 0);
	}
	return arg;
}

TEST(a_lock_of_any_kind_excludes)
{
	for (int i = 0; i < KINDS; i++) {
		begin(&kinds[i]);
		written = 0;
		run(6, works, NULL);
		EXPECT_EQ(written, 6 * 50);
		EXPECT_EQ(inside, 0);
		EXPECT_EQ(pthread_rwlock_destroy(&lock), 0);
	}
}
