/* Clocks of the cpu time that a thread has used: the kernel knows only its own threads'. A clock
 * has the number that glibc would give it, of the thread's tid. */
#include "cpuclock.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>

#include "core.h"
#include "keep.h"
#include "os.h"
#include "syscall.h"
#include "thread.h"
#include "user.h"

/* The kernel's coding: ~tid << 3, and these. */
enum { USERS = 1, PRECISE = 2, KINDS = 3, PER_THREAD = 4 };

enum { US = 1000, SECOND_NS = 1000 * 1000 * 1000 };

enum { COUNTS = 6 };

struct counts {
	int32_t tid; /* of the kernel thread that was asked last */
	long last[COUNTS], told[COUNTS];
};

/* Nearly all that is asked for is another clock. */
static inline bool of_thread(clockid_t clock)
{
	return clock == CLOCK_THREAD_CPUTIME_ID ||
	       (clock < 0 && (clock & PER_THREAD) && (clock & KINDS) != KINDS);
}

pid_t cpu_tid(clockid_t clock)
{
	return clock == CLOCK_THREAD_CPUTIME_ID ? 0 : ~(clock >> 3);
}

struct thread *cpu_owner(clockid_t clock)
{
	struct thread *self = of_thread(clock) ? thread_self() : NULL;
	pid_t tid = cpu_tid(clock);

	return self && tid != 0 ? thread_numbered(tid) : self;
}

bool cpu_ofthread(clockid_t clock)
{
	pid_t tid = cpu_tid(clock);

	return of_thread(clock) && (tid == 0 || tid == os_gettid());
}

static uint64_t ns_of(struct timeval t)
{
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_usec * US;
}

static struct timeval timeval_of(uint64_t ns)
{
	struct timeval t = { .tv_sec = (time_t)(ns / SECOND_NS),
			     .tv_usec = (suseconds_t)(ns % SECOND_NS / US) };
	return t;
}

/* How much of all was the program's own and not the kernel's is a guess, by the kernel thread that
 * *ru is of. All is only ever more, and so are both parts of it. */
static void split(struct thread *t, struct rusage *ru, uint64_t all)
{
	uint64_t user = ns_of(ru->ru_utime), sys = ns_of(ru->ru_stime), told;

	told = ld_rlx(&t->systime);
	sys = user + sys ? (uint64_t)((double)all * ((double)sys / (double)(user + sys))) : 0;
	sys = sys < told ? told : sys > all ? all : sys;
	told = ld_rlx(&t->usertime);
	user = all - sys < told ? told : all - sys;
	st_rlx(&t->usertime, user);
	st_rlx(&t->systime, all - user);
	ru->ru_utime = timeval_of(user);
	ru->ru_stime = timeval_of(all - user);
}

void cpu_forgotten(struct thread *t)
{
	st_rlx(&t->usertime, 0);
	st_rlx(&t->systime, 0);
	if (t->counts)
		*t->counts = (struct counts){ 0 };
}

uint64_t cpu_clock(struct thread *t, clockid_t clock)
{
	uint64_t all = gcputime(t->gp);
	struct rusage ru;

	if (clock >= 0 || (clock & KINDS) != USERS ||
	    arch_syscall3(SYS_getrusage, RUSAGE_SELF, (long)&ru, 0) != 0)
		return all;
	split(t, &ru, all);
	return ns_of(ru.ru_utime);
}

static long gettime(struct thread *t, clockid_t clock, struct timespec *to)
{
	uint64_t ns = cpu_clock(t, clock);
	struct timespec now = { .tv_sec = (time_t)(ns / SECOND_NS),
				.tv_nsec = (long)(ns % SECOND_NS) };

	/* Event loops ask in each round. */
	if (user_writable(to, sizeof(now)) != 0)
		return -EFAULT;
	*to = now;
	return 0;
}

/* The kernel counts faults, switches and the like of its own threads: what one of these had between
 * two questions that t asked there is taken for t's; of the rest nothing is known. */
static void count(struct thread *t, struct rusage *ru, int32_t tid)
{
	long *const of[COUNTS] = { &ru->ru_minflt,  &ru->ru_majflt, &ru->ru_inblock,
				   &ru->ru_oublock, &ru->ru_nvcsw,  &ru->ru_nivcsw };
	struct counts *c = t->counts;

	if (!c) {
		c = keep(sizeof(*c));
		if (os_failed(c))
			return;
		t->counts = c;
	}
	for (int i = 0; i < COUNTS; i++) {
		c->told[i] += c->tid == tid ? *of[i] - c->last[i] : 0;
		c->last[i] = *of[i];
		*of[i] = c->told[i];
	}
	c->tid = tid;
}

static long usage(struct thread *t, struct rusage *to)
{
	struct rusage ru;
	int32_t tid;
	long r;

	do {
		tid = os_gettid();
		r = arch_syscall3(SYS_getrusage, RUSAGE_THREAD, (long)&ru, 0);
	} while (r == 0 && tid != os_gettid());
	if (r != 0)
		return r;
	count(t, &ru, tid);
	split(t, &ru, gcputime(t->gp));
	return user_store(to, &ru, sizeof(ru));
}

bool cpu_call(long nr, const long *a, long *r)
{
	struct thread *t = nr == SYS_getrusage ? thread_self() : cpu_owner((clockid_t)a[0]);

	if (!t || (nr == SYS_getrusage && a[0] != RUSAGE_THREAD))
		return false;
	switch (nr) {
	case SYS_getrusage:
		*r = usage(t, (struct rusage *)a[1]);
		break;
	case SYS_clock_getres:
		*r = arch_syscall3(nr, CLOCK_THREAD_CPUTIME_ID, a[1], 0);
		break;
	default:
		*r = gettime(t, (clockid_t)a[0], (struct timespec *)a[1]);
	}
	return true;
}

static int answer(long r)
{
	if (r == 0)
		return 0;
	errno = (int)-r;
	return -1;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
	struct thread *t = of_thread(clock) && served() ? cpu_owner(clock) : NULL;

	if (unlikely(t != NULL))
		return answer(gettime(t, clock, now));
	/* The program's malloc may ask, which the look-up of the real ones may call. */
	if (unlikely(!real_table.clock_gettime))
		return answer(arch_syscall3(SYS_clock_gettime, clock, (long)now, 0));
	return real_table.clock_gettime(clock, now);
}

EXPORT int clock_getres(clockid_t clock, struct timespec *res)
{
	if (served() && cpu_owner(clock))
		clock = CLOCK_THREAD_CPUTIME_ID;
	return real_table.clock_getres(clock, res);
}

EXPORT int getrusage(__rusage_who_t who, struct rusage *to)
{
	struct thread *t = served() && (int)who == RUSAGE_THREAD ? thread_self() : NULL;

	return t ? answer(usage(t, to)) : real_table.getrusage(who, to);
}

EXPORT int pthread_getcpuclockid(pthread_t thread, clockid_t *clock)
{
	struct thread *t = served() ? thread_of(thread) : NULL;

	if (!t)
		return real_table.pthread_getcpuclockid(thread, clock);
	if (thread_over(t))
		return ESRCH;
	*clock = (clockid_t)(~(uint32_t)t->tid << 3 | PER_THREAD | PRECISE);
	return 0;
}
