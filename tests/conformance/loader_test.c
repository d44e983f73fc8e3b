/* The loader's list of objects has a lock, which glibc does not renew in the child of a fork.
 * Neither who creates a thread needs it, nor one that ends. */
#include "threads.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static __thread long fresh = 3;

static void *same(void *arg)
{
	EXPECT_EQ(fresh, 3);
	fresh = (long)arg;
	return arg;
}

struct detached {
	long i;
	pid_t tid;
	sem_t told;
};

static void *same_and_tells(void *arg)
{
	struct detached *d = arg;

	same((void *)d->i);
	d->tid = gettid();
	sem_post(&d->told);
	return arg;
}

/* Some are joined, some detached, and each begins fresh. None is left: whoever calls _Fork then
 * does so alone. */
static void makes_threads(int n)
{
	for (long i = 0; i < n; i++) {
		struct detached d = { .i = i };
		pthread_t t[2], other;
		void *r;
		sem_init(&d.told, 0, 0);
		EXPECT_EQ(pthread_create(&other, NULL, same_and_tells, &d), 0);
		EXPECT_EQ(pthread_detach(other), 0);
		for (int k = 0; k < 2; k++)
			EXPECT_EQ(pthread_create(&t[k], NULL, same, (void *)i), 0);
		for (int k = 0; k < 2; k++) {
			EXPECT_EQ(pthread_join(t[k], &r), 0);
			EXPECT_EQ((long)r, i);
		}
		while (sem_wait(&d.told) != 0)
			EXPECT_EQ(errno, EINTR);
		await_end_of(d.tid);
	}
}

/* By a child of a child, too. */
static void forks(pid_t (*how)(void), int generations)
{
	pid_t pid = how();

	if (pid == 0) {
		makes_threads(5);
		if (generations > 1)
			forks(how, generations - 1);
		_exit(0);
	}
	EXPECT_EQ(status_of(pid), 0);
}

static void all_ways(void)
{
	forks(fork, 2);
	forks(_Fork, 2);
}

/* ---- before there are threads ---- */

static int forks_at_once(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	all_ways();
	return 1;
}

/* A callback of a callback. */
static int forks_deeper(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	EXPECT_EQ(dl_iterate_phdr(forks_at_once, arg), 1);
	return 1;
}

/* The child of one that never had threads may run natively; the other's does not. */
TEST_IN(20, a_fork_within_a_walk_of_the_only_thread)
{
	EXPECT_EQ(dl_iterate_phdr(forks_at_once, NULL), 1);
	makes_threads(1);
	EXPECT_EQ(dl_iterate_phdr(forks_at_once, NULL), 1);
	EXPECT_EQ(dl_iterate_phdr(forks_deeper, NULL), 1);
	makes_threads(3);
}

/* ---- in a walk through the list ---- */

static sem_t within, leave;

static int stays(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	sem_post(&within);
	while (sem_wait(&leave) != 0)
		continue;
	return 1;
}

static void *walks(void *arg)
{
	EXPECT_EQ(dl_iterate_phdr(stays, NULL), 1);
	return arg;
}

static void while_one_walks(void (*fn)(void))
{
	pthread_t t;

	sem_init(&within, 0, 0);
	sem_init(&leave, 0, 0);
	EXPECT_EQ(pthread_create(&t, NULL, walks, NULL), 0);
	sem_wait(&within);
	fn();
	sem_post(&leave);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	makes_threads(3);
}

TEST_IN(20, a_child_creates_threads_though_another_was_within_a_walk)
{
	while_one_walks(all_ways);
}

static void some_threads(void)
{
	makes_threads(20);
}

TEST_IN(20, threads_come_and_go_while_another_is_within_a_walk)
{
	while_one_walks(some_threads);
}

static int makes_them(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	makes_threads(5);
	if (arg)
		EXPECT_EQ(dl_iterate_phdr(makes_them, NULL), 1);
	return 1;
}

TEST_IN(20, a_walk_waits_for_the_end_of_threads)
{
	makes_threads(1);
	EXPECT_EQ(dl_iterate_phdr(makes_them, &fresh), 1);
}

/* ---- who is cancelled within one ---- */

static void *waits_for_ever(void *arg)
{
	sem_post(&within);
	for (;;)
		pause();
	return arg;
}

static int cancels(struct dl_phdr_info *info, size_t size, void *arg)
{
	pthread_t t;
	void *r;

	(void)info;
	(void)size;
	(void)arg;
	EXPECT_EQ(pthread_create(&t, NULL, waits_for_ever, NULL), 0);
	sem_wait(&within);
	EXPECT_EQ(pthread_cancel(t), 0);
	EXPECT_EQ(pthread_join(t, &r), 0);
	EXPECT(r == PTHREAD_CANCELED);
	return 1;
}

/* The unwinder is loaded by who cancels. */
TEST_IN(20, a_thread_is_cancelled_and_joined_within_a_walk)
{
	sem_init(&within, 0, 0);
	EXPECT_EQ(dl_iterate_phdr(cancels, NULL), 1);
	makes_threads(3);
}

/* ---- a fork within one ---- */

static void *ends(void *arg)
{
	sem_post(&within);
	return arg;
}

static int forks_within(struct dl_phdr_info *info, size_t size, void *arg)
{
	pthread_t t[4];

	(void)info;
	(void)size;
	(void)arg;
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, ends, NULL), 0);
	for (int i = 0; i < 4; i++)
		sem_wait(&within);
	all_ways();
	EXPECT_EQ(dl_iterate_phdr(forks_at_once, NULL), 1);
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
	return 1;
}

TEST_IN(20, a_fork_within_a_walk_while_others_end)
{
	sem_init(&within, 0, 0);
	for (int i = 0; i < 3; i++)
		EXPECT_EQ(dl_iterate_phdr(forks_within, NULL), 1);
	makes_threads(3);
}

/* ---- who was made anew, and his maker ---- */

static int comes_and_goes(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)info;
	(void)size;
	(void)arg;
	makes_threads(2);
	return 1;
}

/* The kernel knows by whom a robust mutex is held: by the maker, still. */
TEST_IN(20, the_kernel_keeps_the_robust_list_of_who_makes_threads)
{
	pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
				  -1, 0);
	pthread_mutexattr_t attr;
	int made[2];
	char byte;
	pid_t pid;

	EXPECT(m != MAP_FAILED && pipe(made) == 0);
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
	EXPECT_EQ(pthread_mutex_init(m, &attr), 0);
	pid = fork();
	if (pid == 0) {
		makes_threads(2);
		dl_iterate_phdr(comes_and_goes, NULL);
		pthread_mutex_lock(m);
		makes_threads(2);
		EXPECT_EQ(write(made[1], "x", 1), 1);
		for (;;)
			pause();
	}
	EXPECT_EQ(read(made[0], &byte, 1), 1);
	EXPECT_EQ(kill(pid, SIGKILL), 0);
	EXPECT_EQ(pthread_mutex_lock(m), EOWNERDEAD);
	EXPECT_EQ(waitpid(pid, NULL, 0), pid);
}

/* ---- while libraries come and go ---- */

static _Atomic int enough;

static void *loads(void *arg)
{
	while (!enough) {
		void *library = dlopen(arg, RTLD_NOW);
		EXPECT(library);
		EXPECT_EQ(dlclose(library), 0);
	}
	return NULL;
}

static void while_libraries_come(int times)
{
	static char *const names[] = { "libresolv.so.2", "libm.so.6" };
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, loads, names[i]), 0);
	for (int i = 0; i < times; i++)
		forks(fork, 1);
	enough = 1;
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
}

TEST_IN(20, a_child_creates_threads_though_libraries_came_and_went)
{
	while_libraries_come(300);
}
