/* Protection keys: what a thread may do with a page is in a register of its own, which it keeps
 * wherever it runs, and hands on to threads that it makes. */
#include "event.h"
#include "threads.h"

#include <setjmp.h>
#include <sys/syscall.h>

enum { MANY = 12, ROUNDS = 200 };

static int key;
static volatile int *page;

/* False where the cpu has none, or the kernel. */
static bool have_key(bool raw)
{
	key = raw ? (int)syscall(SYS_pkey_alloc, 0, 0) : pkey_alloc(0, 0);
	if (key < 0) {
		test_say("  skipped: no protection keys here");
		return false;
	}
	page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	EXPECT_EQ(pkey_mprotect((void *)(uintptr_t)page, PAGE, PROT_READ | PROT_WRITE, key), 0);
	return true;
}

static void run_numbered(void *(*fn)(void *))
{
	pthread_t t[MANY];

	start_numbered(t, MANY, fn);
	join(t, MANY);
}

static void move_about(int i)
{
	if (i % 16 == 0)
		usleep(100);
	else
		sched_yield();
}

static void *keeps_its_rights(void *arg)
{
	int rights = (int)((uintptr_t)arg % 3);

	/* None, PKEY_DISABLE_ACCESS, PKEY_DISABLE_WRITE. */
	EXPECT_EQ(pkey_set(key, (unsigned)rights), 0);
	for (int i = 0; i < ROUNDS; i++) {
		move_about(i);
		EXPECT_EQ(pkey_get(key), rights);
		if (rights == 0)
			*page = i;
		else if (rights == 2)
			(void)*page;
	}
	return NULL;
}

static void each_its_own(bool raw)
{
	if (!have_key(raw))
		return;
	run_numbered(keeps_its_rights);
	EXPECT_EQ(pkey_get(key), 0);
	*page = 1;
}

TEST(each_thread_has_its_own_rights)
{
	each_its_own(false);
}

TEST(each_thread_has_its_own_rights_to_a_key_of_a_raw_call)
{
	each_its_own(true);
}

/* ---- a key that is made while others run ---- */

static atomic_int over;
static struct event moved[MANY];

static void *waits_and_moves(void *arg)
{
	for (int i = 0; !atomic_load(&over); i++) {
		move_about(i);
		tick(&moved[(intptr_t)arg]);
	}
	/* The kernel gave no right to it but to who allocated it. */
	return (void *)(intptr_t)pkey_get(key);
}

static void all_move(void)
{
	for (int i = 0; i < MANY; i++)
		await(&moved[i], moved[i].n + 50);
}

TEST(threads_that_were_there_before_a_key_have_no_right_to_it)
{
	pthread_t t[MANY];
	void *rights;

	start_numbered(t, MANY, waits_and_moves);
	all_move();
	if (!have_key(false))
		key = -1;
	all_move();
	atomic_store(&over, 1);
	for (int i = 0; i < MANY; i++) {
		EXPECT_EQ(pthread_join(t[i], &rights), 0);
		EXPECT_EQ((intptr_t)rights, key < 0 ? -1 : PKEY_DISABLE_ACCESS);
	}
	if (key >= 0)
		EXPECT_EQ(pkey_get(key), 0);
}

/* ---- what a new thread may do, and whose a fault is ---- */

static void *has_its_makers(void *arg)
{
	EXPECT_EQ(pkey_get(key), PKEY_DISABLE_ACCESS);
	for (int i = 0; i < ROUNDS; i++)
		move_about(i);
	EXPECT_EQ(pkey_get(key), PKEY_DISABLE_ACCESS);
	EXPECT_EQ(pkey_set(key, 0), 0);
	move_about((int)(uintptr_t)arg);
	*page = 1;
	return NULL;
}

TEST(a_new_thread_has_its_makers_rights)
{
	if (!have_key(false))
		return;
	EXPECT_EQ(pkey_set(key, PKEY_DISABLE_ACCESS), 0);
	run_numbered(has_its_makers);
	EXPECT_EQ(pkey_get(key), PKEY_DISABLE_ACCESS);
}

static __thread sigjmp_buf out;
static atomic_int faults;

static void faulted(int sig, siginfo_t *info, void *uc)
{
	(void)uc;
	EXPECT_EQ(sig, SIGSEGV);
	EXPECT_EQ(info->si_code, SEGV_PKUERR);
	EXPECT(info->si_addr == (const void *)(uintptr_t)page);
	atomic_fetch_add(&faults, 1);
	siglongjmp(out, 1);
}

static void *is_kept_out_or_not(void *arg)
{
	bool may = (uintptr_t)arg % 2;

	EXPECT_EQ(pkey_set(key, may ? 0 : PKEY_DISABLE_WRITE), 0);
	for (int i = 0; i < ROUNDS; i++)
		move_about(i);
	if (sigsetjmp(out, 1) == 0) {
		*page = 1;
		EXPECT(may);
	} else {
		EXPECT(!may);
	}
	return NULL;
}

TEST(who_may_not_write_faults_and_no_other)
{
	struct sigaction sa = { .sa_sigaction = faulted, .sa_flags = SA_SIGINFO };

	if (!have_key(false))
		return;
	EXPECT_EQ(sigaction(SIGSEGV, &sa, NULL), 0);
	run_numbered(is_kept_out_or_not);
	EXPECT_EQ(atomic_load(&faults), MANY / 2);
}
