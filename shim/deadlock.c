/* The report of a deadlock: every thread waits for another, and nobody can wake one. Owns the
 * verdict and the text; the words are those of `heddle dump` (command/waits.c). It is silent where
 * it cannot be sure:
 *
 *   a thread that waits for a descriptor, a time, a signal, a child, or in any announced call,
 *   another kernel thread than ours: core/asleep.h, which calls us then only;
 *   a wait on memory that another process may have, too;
 *   a handler of a signal, which may post a semaphore: then all must wait for mutexes and ends of
 *   threads, which no handler gives.
 *
 * And it looks twice, a second apart (a tenth, under a policy with points): it must be the same
 * waits. Next: backtrace.c. */
#include "deadlock.h"

#include "asleep.h"
#include "backtrace.h"
#include "config.h"
#include "early.h"
#include "os.h"
#include "signals.h"
#include "text.h"
#include "thread.h"

enum { BYTES = 32 * 1024, ROOM = 8 * 1024, MAX_THREADS = 200, MAX_STEPS = 1000 };

enum wants { SOMETHING, MUTEX, END };

struct sleeper {
	const struct g *gp;
	const struct thread *t;
	struct asleep a;
};

FORKED static uint64_t before; /* the waits of the last look, in one number */
FORKED static bool said;
static char buf[BYTES];

static enum asleep_state look(const struct g *gp, struct sleeper *s)
{
	s->gp = gp;
	s->t = ghost_of(gp);
	/* The first thread stays, parked, when it has ended before the others. */
	if (s->t && s->t->main && (ld_acq(&s->t->life) & FINISHED))
		return ASLEEP_DEAD;
	return asleep_look(gp, &s->a);
}

/* A mutex has its owner's tid beside the word that is waited on, and that word is locked. */
static const struct g *owner_of(const struct sleeper *s)
{
	enum {
		BESIDE = __builtin_offsetof(pthread_mutex_t, __data.__owner) -
			 __builtin_offsetof(pthread_mutex_t, __data.__lock)
	};
	uintptr_t at = (uintptr_t)s->a.on;
	int32_t owner;
	uint32_t word;

	if (!memory_read(at, &word, sizeof(word)) || word == 0 || word > 3 ||
	    !memory_read(at + BESIDE, &owner, sizeof(owner)) || owner <= 0)
		return NULL;
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		const struct thread *t = ghost_of(gp);
		struct sleeper other;
		if (t && t->tid == owner && look(gp, &other) != ASLEEP_DEAD)
			return gp;
	}
	return NULL;
}

/* What it waits for; *of: whose. */
static enum wants wants(const struct sleeper *s, const struct g **of)
{
	const struct thread *joined = s->t ? ld_rlx(&s->t->joins) : NULL;

	*of = NULL;
	if (joined && s->a.on == (const void *)&joined->life) {
		if (ld_rlx(&joined->life) & FINISHED)
			return SOMETHING;
		*of = joined->gp;
		return END;
	}
	*of = owner_of(s);
	return *of ? MUTEX : SOMETHING;
}

/* ---- the verdict ---- */

/* Has any signal a handler, but for those that are ours and glibc's? The kernel's word: not every
 * way to one passes by us. */
static bool any_handler(void)
{
	static const char label[] = "\nSigCgt:\t";
	static char status[4096];
	uint64_t set = 0;

	if (os_readfile("/proc/self/status", status, sizeof(status)) < 0)
		return true;
	for (const char *s = status; *s; s++) {
		size_t i = 0;
		while (label[i] && s[i] == label[i])
			i++;
		if (label[i])
			continue;
		for (s += i; *s && *s != '\n'; s++)
			set = set << 4 | (uint64_t)(*s <= '9' ? *s - '0' : *s - 'a' + 10);
		return (set & ~UNBLOCKABLE) != 0;
	}
	return true;
}

static bool is_dead(uint64_t *waits)
{
	bool handlers = any_handler();
	int threads = 0;

	*waits = 0;
	if (!maps_read())
		return false;
	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		struct sleeper s;
		const struct g *of;
		enum asleep_state state = look(gp, &s);

		if (state == ASLEEP_DEAD)
			continue;
		if (state == ASLEEP_NOT || !s.t)
			return false;
		*waits = (*waits ^ s.a.goid) * 1099511628211u ^ s.a.wait;
		if (s.t->own)
			continue;
		threads++;
		if (!maps_private((uintptr_t)s.a.on) || (handlers && wants(&s, &of) == SOMETHING))
			return false;
	}
	return threads > 0;
}

/* ---- the text ---- */

static void put_g(struct text *t, const struct g *gp)
{
	struct asleep a = { .goid = 0 };

	asleep_look(gp, &a);
	text_put(t, "G ");
	text_unsigned(t, a.goid);
}

static void put_age(struct text *t, uint64_t since)
{
	uint64_t now = nanotime(), tenths = now > since ? (now - since) / 100000000u : 0;

	text_unsigned(t, tenths / 10);
	text_put(t, ".");
	text_unsigned(t, tenths % 10);
	text_put(t, "s");
}

static void put_wait(struct text *t, const struct sleeper *s)
{
	const struct g *of;
	enum wants what = wants(s, &of);

	if (what == END) {
		text_put(t, "joins ");
		put_g(t, of);
		return;
	}
	text_put(t, what == MUTEX ? "mutex " : "futex ");
	text_hex(t, (uintptr_t)s->a.on);
	if (what == MUTEX && of == s->gp) {
		text_put(t, ", which it holds itself");
	} else if (what == MUTEX) {
		text_put(t, ", held by ");
		put_g(t, of);
	}
}

static void put_name(struct text *t, const struct thread *thread)
{
	char name[NAME_LEN + 1];
	int i = 0;

	if (!thread->named || !thread->name[0]) {
		text_put(t, thread->main ? " main" : "");
		return;
	}
	for (; i < NAME_LEN && thread->name[i]; i++)
		name[i] = thread->name[i] >= ' ' && thread->name[i] < 127 ? thread->name[i] : '?';
	name[i] = 0;
	text_put(t, " \"");
	text_put(t, name);
	text_put(t, "\"");
}

static void put_thread(struct text *t, const struct sleeper *s)
{
	uintptr_t frames[BACKTRACE_FRAMES];
	int n = backtrace_of(s->a.context, s->a.stackhi, frames);

	put_g(t, s->gp);
	put_name(t, s->t);
	text_put(t, " tid ");
	text_num(t, s->t->tid);
	text_put(t, ": waiting for ");
	put_age(t, s->a.since);
	text_put(t, ": ");
	put_wait(t, s);
	text_put(t, "\n");
	for (int i = 0; i < n; i++)
		backtrace_put(t, frames[i]);
	text_put(t, "\n");
}

static const struct g *next_of(const struct g *gp)
{
	const struct g *of = NULL;
	struct sleeper s;

	if (look(gp, &s) == ASLEEP_WAITS)
		wants(&s, &of);
	return of;
}

/* Is it in a circle, and of those in it the one with the least address? So each is told once. */
static bool leads_circle(const struct g *gp)
{
	const struct g *at = gp;

	for (int i = 0; i < MAX_STEPS; i++) {
		at = next_of(at);
		if (at == gp)
			return true;
		if (!at || at < gp)
			return false;
	}
	return false;
}

static void put_circle(struct text *t, const struct g *gp)
{
	const struct g *at = gp, *of;
	struct sleeper s;

	text_put(t, "Deadlock: ");
	put_g(t, gp);
	do {
		if (look(at, &s) != ASLEEP_WAITS)
			return;
		if (wants(&s, &of) == END) {
			text_put(t, " joins ");
		} else {
			text_put(t, " waits for the mutex ");
			text_hex(t, (uintptr_t)s.a.on);
			text_put(t, ", held by ");
		}
		put_g(t, of);
		text_put(t, of == gp ? ".\n" : ", which");
		at = of;
		if (t->len > ROOM)
			text_write2(t);
	} while (at != gp);
}

/* The thread with the least id above that; false: there is none. The list has the last made first.
 */
static bool next_thread(uint64_t above, struct sleeper *next)
{
	bool found = false;

	for (struct g *gp = geach(NULL); gp; gp = geach(gp)) {
		struct sleeper s;
		if (look(gp, &s) != ASLEEP_WAITS || !s.t || s.t->own || s.a.goid <= above ||
		    (found && s.a.goid > next->a.goid))
			continue;
		*next = s;
		found = true;
	}
	return found;
}

static void report(void)
{
	struct text t = TEXT(buf);
	struct sleeper s = { .a = { .goid = 0 } };
	int n = 0;

	text_put(&t, "heddle: all threads are asleep - deadlock!\n\n");
	while (n < MAX_THREADS && next_thread(s.a.goid, &s)) {
		put_thread(&t, &s);
		if (t.len > ROOM)
			text_write2(&t);
		n++;
	}
	if (n == MAX_THREADS)
		text_put(&t, "and perhaps more threads; heddle dump tells of all\n\n");
	for (struct g *gp = geach(NULL); gp; gp = geach(gp))
		if (leads_circle(gp))
			put_circle(&t, gp);
	text_write2(&t);
}

void deadlock_look(void)
{
	uint64_t waits;

	if (said || !is_dead(&waits)) {
		before = 0;
		return;
	}
	if (waits != before) {
		before = waits;
		return;
	}
	said = true;
	report();
	if (config.deadlock == DEADLOCK_ABORT)
		os_abort();
}

FORKS void deadlock_forked(void)
{
	said = false;
	before = 0;
}
