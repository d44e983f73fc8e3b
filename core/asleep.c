/* The look whether every G waits for another: asleep.h. It is stricter than checkdead, which may be
 * wrong for one line: here it is wrong never to the side of a false alarm. Decides nothing; what a
 * thread waits for is the embedder's to know. */
#include "asleep.h"

#include "os.h"
#include "poller.h"
#include "san.h"
#include "sched.h"
#include "tracer.h"

enum { STATUS_BYTES = 4096 };

static void (*ask)(void);
static uint64_t asked, every;

void asleep_init(void (*fn)(void), uint64_t often)
{
	ask = fn;
	every = often;
	asked = 0;
}

uint64_t asleep_every(void)
{
	return ask ? every : 0;
}

/* How many kernel threads the process has; 0: not known. */
static int32_t kernel_threads(void)
{
	static const char label[] = "\nThreads:\t";
	static char buf[STATUS_BYTES];
	int32_t n = 0;

	if (os_readfile("/proc/self/status", buf, sizeof(buf)) < 0)
		return 0;
	for (const char *s = buf; *s; s++) {
		size_t i = 0;
		while (label[i] && s[i] == label[i])
			i++;
		if (label[i])
			continue;
		for (s += i; *s >= '0' && *s <= '9'; s++)
			n = n * 10 + (*s - '0');
		return n;
	}
	return 0;
}

/* No M does anything, nothing is due, and there are only sysmon, the starter, the tracer and those
 * Ms. */
static bool nobody_runs(void)
{
	int32_t ms;
	bool quiet;

	lock(&sched.lock);
	ms = sched.mcount;
	quiet = ms == sched.nmidle + sched.nmidlelocked + sched.nmsys && sched.runqsize == 0 &&
		!ld_rlx(&sched.gcwaiting);
	unlock(&sched.lock);
	return quiet && timers_next() == 0 && !netpoll_anywaiters() &&
	       kernel_threads() == ms + 1 + tracer_threads();
}

void asleep_round(uint64_t now)
{
	if (likely(!ask) || now - asked < every)
		return;
	asked = now;
	if (nobody_runs())
		ask();
}

SAN_RACY enum asleep_state asleep_look(const struct g *gp, struct asleep *to)
{
	/* Acquire: its context was saved before the status was. */
	uint32_t status = ld_acq(&gp->status);
	uint64_t wait = ld_acq(&gp->wait);

	if (status == GDEAD || status == GIDLE)
		return ASLEEP_DEAD;
	if (status != GWAITING || gp->waitreason != WAIT_FUTEX || ld_rlx(&gp->timer.heap) ||
	    (wait & ((1u << WAIT_BITS) - 1)) != WAIT_PENDING)
		return ASLEEP_NOT;
	to->goid = gp->goid;
	to->since = ld_rlx(&gp->waitsince);
	to->wait = wait;
	to->on = ld_rlx(&gp->waiton);
	to->context = gp->sched.sp;
	to->stackhi = gp->stack.hi;
	return ASLEEP_WAITS;
}
