/* Functions of the C library that are asked for by name, as foreign function interfaces do: they
 * are those that the program is linked with. */
#include "event.h"

#include <dlfcn.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

enum { SEVERAL = 8 };

/* named: the function of that name, by the library's handle. */
static void named(void *function, const char *name)
{
	void *library = dlopen("libc.so.6", RTLD_NOW), *at;

	EXPECT(library != NULL);
	at = dlsym(library, name);
	EXPECT(at != NULL);
	memcpy(function, &at, sizeof(at));
}

static pid_t of_version(void *library)
{
	void *at = dlvsym(library, "gettid", "GLIBC_2.30");
	pid_t (*ask)(void);

	EXPECT(at != NULL);
	memcpy(&ask, &at, sizeof(ask));
	return ask();
}

/* What was built before glibc 2.34 asks for: another function. */
static int kill_of_old(void *library, pthread_t t, int sig)
{
	void *at = dlvsym(library, "pthread_kill", "GLIBC_2.2.5");
	int (*sends)(pthread_t, int);

	memcpy(&sends, &at, sizeof(sends));
	return at ? sends(t, sig) : 0;
}

static void *asks_who_it_is(void *arg)
{
	pid_t (*by_handle)(void), (*by_default)(void), (*by_next)(void);
	void *at;

	named(&by_handle, "gettid");
	at = dlsym(RTLD_DEFAULT, "gettid");
	memcpy(&by_default, &at, sizeof(at));
	at = dlsym(RTLD_NEXT, "gettid");
	memcpy(&by_next, &at, sizeof(at));
	EXPECT_EQ(by_handle(), gettid());
	EXPECT_EQ(by_default(), gettid());
	EXPECT_EQ(by_next(), gettid());
	EXPECT_EQ(of_version(dlopen("libc.so.6", RTLD_NOW)), gettid());
	EXPECT_EQ(of_version(RTLD_DEFAULT), gettid());
	EXPECT_EQ(of_version(RTLD_NEXT), gettid());
	EXPECT_EQ(kill_of_old(RTLD_DEFAULT, pthread_self(), 0), 0);
	return arg;
}

TEST(a_thread_has_one_tid_whatever_way_its_asker_was_found)
{
	run(SEVERAL, asks_who_it_is, NULL);
}

static void *ends(void *arg)
{
	return arg;
}

static _Atomic bool told;

static void tells(int sig)
{
	(void)sig;
	told = true;
}

static void *ends_when_told(void *arg)
{
	while (!told)
		sched_yield();
	return arg;
}

/* It was there when the signal was sent. */
TEST(programs_built_long_ago_are_not_told_that_a_thread_has_ended_by_the_signal)
{
	struct sigaction act = { .sa_handler = tells };
	pthread_t t;

	EXPECT_EQ(sigaction(SIGRTMIN, &act, NULL), 0);
	for (int i = 0; i < 5000; i++) {
		told = false;
		EXPECT_EQ(pthread_create(&t, NULL, ends_when_told, NULL), 0);
		EXPECT_EQ(kill_of_old(RTLD_DEFAULT, t, SIGRTMIN), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
}

/* The test's time is its limit. */
TEST(programs_built_long_ago_are_told_that_a_thread_has_ended)
{
	void *library = dlopen("libc.so.6", RTLD_NOW);
	int (*sends)(pthread_t, int);
	pthread_t t;

	start(&t, 1, ends, NULL);
	while (kill_of_old(RTLD_DEFAULT, t, 0) == 0)
		sched_yield();
	EXPECT_EQ(kill_of_old(RTLD_DEFAULT, t, SIGUSR1), ESRCH);
	EXPECT_EQ(kill_of_old(library, t, SIGUSR1), ESRCH);
	EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
	named(&sends, "pthread_kill");
	EXPECT_EQ(sends(t, SIGUSR1), 0);
	join(&t, 1);
}

static sem_t semaphore;
static _Atomic int passed_by;

static void *waits(void *arg)
{
	passed_by += sem_wait(&semaphore) == 0;
	return arg;
}

TEST(a_semaphore_is_posted_by_handle_and_waited_for_by_those_who_are_linked)
{
	int (*create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
	int (*joins)(pthread_t, void **), (*post)(sem_t *);
	pthread_t linked[SEVERAL], found[SEVERAL];

	named(&create, "pthread_create");
	named(&joins, "pthread_join");
	named(&post, "sem_post");
	sem_init(&semaphore, 0, 0);
	for (int i = 0; i < SEVERAL; i++) {
		EXPECT_EQ(pthread_create(&linked[i], NULL, waits, NULL), 0);
		EXPECT_EQ(create(&found[i], NULL, waits, NULL), 0);
	}
	settle();
	for (int i = 0; i < SEVERAL; i++) {
		EXPECT_EQ(post(&semaphore), 0);
		EXPECT_EQ(post(&semaphore), 0);
	}
	for (int i = 0; i < SEVERAL; i++) {
		EXPECT_EQ(joins(linked[i], NULL), 0);
		EXPECT_EQ(pthread_join(found[i], NULL), 0);
	}
	EXPECT_EQ(passed_by, 2 * SEVERAL);
}

TEST(a_name_that_no_library_has_is_an_error)
{
	void *library = dlopen("libc.so.6", RTLD_NOW);

	dlerror();
	EXPECT(dlsym(library, "no_such_name") == NULL);
	EXPECT(dlerror() != NULL);
	EXPECT(dlsym(RTLD_DEFAULT, "no_such_name") == NULL);
	EXPECT(dlerror() != NULL);
	EXPECT(dlvsym(library, "gettid", "GLIBC_0.0") == NULL);
	EXPECT(dlerror() != NULL);
	EXPECT(dlvsym(RTLD_NEXT, "gettid", "GLIBC_0.0") == NULL);
	EXPECT(dlerror() != NULL);
	EXPECT(dlsym(library, "gettid") != NULL);
	EXPECT(dlerror() == NULL);
}

/* ---- beside who opens and closes libraries ---- */

static _Atomic int over;

/* They belong to glibc, and nobody has them open. */
static void *opens_and_closes(void *arg)
{
	static const char *const libraries[] = { "libanl.so.1", "libBrokenLocale.so.1" };

	while (!over)
		for (int i = 0; i < 2; i++) {
			void *library = dlopen(libraries[i], RTLD_NOW);
			EXPECT(library != NULL && dlclose(library) == 0);
		}
	return arg;
}

static void *asks(void *arg)
{
	for (int i = 0; i < 3000; i++) {
		EXPECT(dlvsym(RTLD_NEXT, "gettid", "GLIBC_2.30") != NULL);
		EXPECT(dlsym(RTLD_NEXT, "gettid") != NULL);
		EXPECT(dlsym(RTLD_DEFAULT, "sem_post") != NULL);
	}
	return arg;
}

TEST(who_asks_beside_a_library_that_is_closed_is_told)
{
	pthread_t t;

	EXPECT_EQ(pthread_create(&t, NULL, opens_and_closes, NULL), 0);
	run(2, asks, NULL);
	over = 1;
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
