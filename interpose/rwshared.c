/* Process-shared read-write locks: glibc's own, by announced calls. */
#include "rwshared.h"

#include <errno.h>

#include "thread.h"
#include "wire.h"

/* Other processes compare the tid of the writer with their own threads': ours are not
 * unique beyond the process, the kernel's are. */
static void own_writer(void)
{
	struct thread *t = thread_self();

	if (t)
		thread_own_tid(t);
}

int rwshared_lock(pthread_rwlock_t *l, bool write, clockid_t clock, const struct timespec *until)
{
	bool g = thread_self() != NULL;
	int r;

	if (write)
		own_writer();
	r = write ? real_table.pthread_rwlock_trywrlock(l) : real_table.pthread_rwlock_tryrdlock(l);

	if (r != EBUSY && r != EAGAIN)
		return r;
	if (g)
		wait_enter();
	if (until)
		r = write ? real_table.pthread_rwlock_clockwrlock(l, clock, until)
			  : real_table.pthread_rwlock_clockrdlock(l, clock, until);
	else
		r = write ? real_table.pthread_rwlock_wrlock(l)
			  : real_table.pthread_rwlock_rdlock(l);
	if (g)
		exitsyscall();
	return r;
}

int rwshared_trywrlock(pthread_rwlock_t *l)
{
	own_writer();
	return real_table.pthread_rwlock_trywrlock(l);
}
