/* The end of a thread's local data: thread-specific keys and thread-local variables. Owns
 * the table of destructors. The values themselves are glibc's, in the thread block, so
 * that pthread_getspecific stays glibc's own. */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <locale.h>
#include <netdb.h>
#include <resolv.h>
#include <string.h>

#include "loader.h"
#include "thread.h"
#include "tls_image.h"

typedef void destructor(void *);

/* A destructor is told to glibc too: for threads that are not ours. */
static ATOMIC(destructor *) destructors[PTHREAD_KEYS_MAX];
static ATOMIC(uint32_t) used; /* keys below this may have one */

EXPORT int pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
	int r;
	uint32_t n;

	served();
	r = real_table.pthread_key_create(key, destroy);
	if (r != 0 || *key >= PTHREAD_KEYS_MAX)
		return r;
	st_rel(&destructors[*key], destroy);
	while ((n = ld_rlx(&used)) <= *key)
		cas_rlx(&used, n, *key + 1);
	return 0;
}

EXPORT int __pthread_key_create(pthread_key_t *key, void (*destroy)(void *))
{
	return pthread_key_create(key, destroy);
}

EXPORT int pthread_key_delete(pthread_key_t key)
{
	served();
	if (key < PTHREAD_KEYS_MAX)
		st_rlx(&destructors[key], NULL);
	return real_table.pthread_key_delete(key);
}

static bool run_destructors(void)
{
	uint32_t n = ld_acq(&used);
	bool any = false;

	for (pthread_key_t key = 0; key < n; key++) {
		destructor *destroy = ld_acq(&destructors[key]);
		void *value = pthread_getspecific(key);
		if (!value)
			continue;
		pthread_setspecific(key, NULL);
		if (destroy) {
			any = true;
			destroy(value);
		}
	}
	return any;
}

/* What is registered after they were called glibc never calls. */
EXPORT int __cxa_thread_atexit_impl(void (*fn)(void *), void *object, void *library)
{
	struct thread *t = served() ? thread_self() : NULL;

	return t && t->destroyed ? 0 : real_table.__cxa_thread_atexit_impl(fn, object, library);
}

void thread_locals_end(bool main)
{
	struct thread *t = thread_self();

	/* Those of the first thread's variables exit calls, if it is the last, and else nobody:
	 * others may use them still. */
	if (!main)
		tls_call_destructors();
	/* None in the child of a fork, of which it is the only thread. */
	if (t)
		t->destroyed = !t->main;
	for (int round = 0; round < PTHREAD_DESTRUCTOR_ITERATIONS && run_destructors(); round++)
		continue;
	/* What the last round's destructors set is lost, as it is in glibc. */
	for (pthread_key_t key = 0; key < ld_acq(&used); key++)
		if (pthread_getspecific(key))
			pthread_setspecific(key, NULL);
}

/* As glibc ends it, but for malloc's cache, which is of use to the next. */
static void renew_libc(void)
{
	uselocale(LC_GLOBAL_LOCALE);
	/* It forgets what it has told. */
	while (dlerror())
		continue;
	if (_res.options & RES_INIT) {
		res_nclose(&_res);
		_res.options = 0;
	}
	h_errno = 0;
	errno = 0;
}

bool thread_locals_renew(struct thread *t)
{
	bool all, asks = tls_asks();

	t->destroyed = false;
	if (!loader_take(asks))
		return false;
	all = tls_reset(t->seen, asks);
	loader_letgo(asks);
	renew_libc();
	return all;
}
