/* C11 threads, in terms of the calls for pthreads: glibc's types for the two are the same,
 * and its own C11 calls go past any symbol that could be interposed. */
#include <errno.h>
#include <stdint.h>
#include <threads.h>

#include "thread.h"

static int result(int error)
{
	switch (error) {
	case 0:
		return thrd_success;
	case ENOMEM:
		return thrd_nomem;
	case ETIMEDOUT:
		return thrd_timedout;
	case EBUSY:
		return thrd_busy;
	default:
		return thrd_error;
	}
}

EXPORT int thrd_create(thrd_t *t, thrd_start_t fn, void *arg)
{
	if (!served() || !heddle_start())
		return real_table.thrd_create(t, fn, arg);
	return result(thread_create_c11(t, fn, arg));
}

EXPORT int thrd_join(thrd_t t, int *status)
{
	void *p;
	int r = pthread_join(t, &p);

	if (r == 0 && status)
		*status = (int)(intptr_t)p;
	return result(r);
}

EXPORT int thrd_detach(thrd_t t)
{
	return result(pthread_detach(t));
}

EXPORT void thrd_exit(int status)
{
	pthread_exit((void *)(intptr_t)status);
}

EXPORT void thrd_yield(void)
{
	sched_yield();
}

EXPORT int thrd_sleep(const struct timespec *time, struct timespec *left)
{
	int r = clock_nanosleep(CLOCK_REALTIME, 0, time, left);

	return r == 0 ? 0 : r == EINTR ? -1 : -2;
}

static pthread_mutex_t *mutex(mtx_t *m)
{
	return (pthread_mutex_t *)(void *)m;
}

static pthread_cond_t *cond(cnd_t *c)
{
	return (pthread_cond_t *)(void *)c;
}

EXPORT int mtx_lock(mtx_t *m)
{
	return result(pthread_mutex_lock(mutex(m)));
}

EXPORT int mtx_trylock(mtx_t *m)
{
	return result(pthread_mutex_trylock(mutex(m)));
}

EXPORT int mtx_timedlock(mtx_t *m, const struct timespec *until)
{
	return result(pthread_mutex_timedlock(mutex(m), until));
}

EXPORT int mtx_unlock(mtx_t *m)
{
	return result(pthread_mutex_unlock(mutex(m)));
}

EXPORT int cnd_init(cnd_t *c)
{
	return result(pthread_cond_init(cond(c), NULL));
}

EXPORT void cnd_destroy(cnd_t *c)
{
	pthread_cond_destroy(cond(c));
}

EXPORT int cnd_wait(cnd_t *c, mtx_t *m)
{
	return result(pthread_cond_wait(cond(c), mutex(m)));
}

EXPORT int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *until)
{
	return result(pthread_cond_timedwait(cond(c), mutex(m), until));
}

EXPORT int cnd_signal(cnd_t *c)
{
	return result(pthread_cond_signal(cond(c)));
}

EXPORT int cnd_broadcast(cnd_t *c)
{
	return result(pthread_cond_broadcast(cond(c)));
}

EXPORT void call_once(once_flag *once, void (*fn)(void))
{
	pthread_once((pthread_once_t *)(void *)once, fn);
}

EXPORT int tss_create(tss_t *key, tss_dtor_t destroy)
{
	return result(pthread_key_create((pthread_key_t *)key, destroy));
}

EXPORT void tss_delete(tss_t key)
{
	pthread_key_delete(key);
}
