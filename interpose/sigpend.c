/* Signals pending for one thread, which the kernel knows nothing of: it would keep them for a
 * kernel thread. The set in the thread's record is the truth; what is sent to a kernel thread
 * carries a mark and is only a nudge, to look at the set there and then. Whoever it finds looks
 * at its own: the kernel keeps one of a number, and may have merged the nudge with one for
 * another thread that was here before. One that finds another thread loses nothing, for its own
 * looks when it next leaves the core (gnotify). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/syscall.h>

#include "os.h"
#include "preempt.h"
#include "signals.h"
#include "sleep.h"
#include "syscall.h"
#include "thread.h"

bool signal_marked(const siginfo_t *info)
{
	return info->si_errno == SIG_MARK;
}

uint64_t signals_of(struct thread *t)
{
	return ld_sc(&t->signals.set) | ld_sc(&t->lent.set);
}

bool signal_claim(struct thread *t, int sig, siginfo_t *info)
{
	return pending_claim(&t->signals, sig, info) || pending_claim(&t->lent, sig, info);
}

static void nudge(int sig, int32_t tid)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = sig;
	info.si_errno = SIG_MARK;
	/* One that a program may send. */
	info.si_code = SI_QUEUE;
	arch_syscall4(SYS_rt_tgsigqueueinfo, getpid(), tid, sig, (long)&info);
}

/* t is in the kernel's call for it, or about to make it, where the nudge ends the call. It does not
 * go before those that it sees here are done (sigtimedwait). Or it does not await it, and a nudge
 * finds it sooner: but who was called out of a wait may have the signal already, and its next call
 * would end for nothing. (It may take it after our look, if the kernel stops us just then.) */
static void feed(struct thread *t, int sig, bool awaits)
{
	int32_t tid;

	/* It waits for us, or goes on: we must not be stopped meanwhile, nor run a handler. */
	gpin();
	add_sc(&t->feeders, 1);
	tid = (awaits ? ld_sc(&t->awaits) : signals_of(t)) & signal_bit(sig) ? gtid(t->gp) : 0;
	if (tid != 0) {
		if (awaits)
			or_sc(&t->fed, signal_bit(sig));
		nudge(sig, tid);
	}
	add_sc(&t->feeders, (uint32_t)-1);
	gunpin();
}

static void feed_all(const struct pending *p, int sig)
{
	uint64_t at = 0;

	for (uint32_t n = pending_count(p, sig); n > 0; n--) {
		siginfo_t info;
		at = pending_look(p, sig, at, &info);
		if (at++ == 0)
			siginfo_make(&info, sig, SI_USER);
		info.si_errno = SIG_MARK;
		arch_syscall4(SYS_rt_tgsigqueueinfo, getpid(), os_gettid(), sig, (long)&info);
	}
}

void signals_feed(struct thread *t)
{
	const struct pending *from[] = { &t->signals, &t->lent, signals_holds() };
	uint64_t set = (signals_of(t) | signals_held()) & gmask(), there = 0;

	if (likely(set == 0))
		return;
	arch_syscall3(SYS_rt_sigpending, (long)&there, SIGSET_BYTES, 0);
	for (int sig = 1; sig < SIGNALS; sig++) {
		uint64_t bit = signal_bit(sig);
		/* One of those that are not queued: the kernel keeps the first. */
		if (!(set & bit) || (sig < FIRST_QUEUED && (there & bit)))
			continue;
		or_sc(&t->fed, bit);
		for (unsigned i = 0; i < sizeof(from) / sizeof(*from); i++)
			feed_all(from[i], sig);
	}
}

/* Nothing calls the thread out of what it is in: the process stops or ends at once. */
static void for_kernel(struct thread *t, int sig)
{
	siginfo_t info;

	if (signal_claim(t, sig, &info))
		arch_syscall3(SYS_kill, getpid(), sig, 0);
}

void signal_push(struct thread *t, int sig)
{
	if (ld_sc(&t->awaits) & signal_bit(sig)) {
		feed(t, sig, true);
		return;
	}
	if (gmask_of(t->gp) & signal_bit(sig))
		return;
	if (!signal_has_handler(sig)) {
		if (!gnotify_now(t->gp))
			for_kernel(t, sig);
		return;
	}
	gnotify(t->gp);
	feed(t, sig, false);
}

long signal_thread(struct thread *t, int sig, const siginfo_t *info)
{
	uint64_t blocked = gmask_of(t->gp) | ld_sc(&t->awaits);

	if (!(blocked & signal_bit(sig)) && !signal_has_handler(sig) && signal_ignored(sig))
		return 0;
	/* As the kernel has it: kill() is heard, though without what came with it; a timer had its
	 * place from the first. */
	if (sig >= FIRST_QUEUED && info->si_code != SI_USER && info->si_code != SI_TIMER &&
	    !pending_room())
		return -EAGAIN;
	pending_add(&t->signals, sig, info);
	/* As it would be delivered before the call returns. */
	if (t == thread_self() && !(blocked & signal_bit(sig)))
		signals_run();
	else
		signal_push(t, sig);
	return 0;
}

void signal_left(struct g *gp, int sig)
{
	struct thread *t = ghost_of(gp);
	siginfo_t info;

	if (!t)
		return;
	siginfo_make(&info, sig, SI_USER);
	pending_add(&t->signals, sig, &info);
	/* As a rule it does not. */
	if (!(gmask_of(gp) & signal_bit(sig)))
		core_sigmark(gp);
}

bool call_failed(void)
{
	return errno == EPIPE || errno == EFBIG;
}

/* What was lent to t, which has ended, goes to others. */
static void give_back(struct thread *t)
{
	siginfo_t info;

	for (int sig = 1; sig < SIGNALS && ld_sc(&t->lent.set) != 0; sig++)
		while (pending_claim(&t->lent, sig, &info))
			signal_put_off(sig, &info);
}

void signal_lend(struct thread *t, int sig, const siginfo_t *info)
{
	pending_add(&t->lent, sig, info);
	/* Who sent it may be heard of before we push. */
	core_sigmark(t->gp);
	/* It ended meanwhile, and may not have seen it. */
	if (unlikely(ld_sc(&t->life) & FINISHED))
		give_back(t);
}

void signals_here(void)
{
	struct thread *t = thread_self();
	for (int sig = 1; sig < SIGNALS; sig++) {
		siginfo_t info;
		/* One before may have run a handler, above others', and returned to another mask.
		 */
		if (!(signals_of(t) & ~gmask() & signal_bit(sig)))
			continue;
		/* Without a handler it stops or ends the process, or is ignored: but once. */
		if (signal_has_handler(sig))
			nudge(sig, os_gettid());
		else if (signal_claim(t, sig, &info))
			arch_syscall3(SYS_tgkill, getpid(), os_gettid(), sig);
	}
}

void signals_run(void)
{
	/* It must not change its kernel thread in between. */
	entersyscall();
	signals_here();
	exitsyscall();
}

static bool unblocked(void (*unhold)(struct thread *t, uint64_t set))
{
	struct thread *t = thread_self();
	/* A fence: the mask is written, then this is read; who sends does the reverse. */
	uint64_t mine = or_sc(&t->signals.set, 0) | or_sc(&t->lent.set, 0);
	uint64_t free = ~gmask();

	signals_settle();
	if (signals_held() & free)
		unhold(t, free);
	signals_settle();
	return ((mine | signals_of(t)) & free) != 0;
}

bool signals_unblocked(void)
{
	return unblocked(signals_unhold);
}

bool signals_unblocked_here(void)
{
	return unblocked(signals_unhold_here);
}

/* The kernel's word is in the order of its calls: it looks again at what it may deliver here when
 * a signal is unblocked. */
void signals_pull(void)
{
	struct thread *t = thread_self(), *first = thread_first();
	uint64_t mine = signals_let_in() & ~gmask();

	/* It would choose the first, if that one can take it, but for a child of this one's. */
	if (t && t != first)
		mine &= gmask_of(first->gp) | (t->parent ? signal_bit(SIGCHLD) : 0);
	if (!t || mine == 0)
		return;
	/* The G's own mask stays: that the first G's changes is heard in every kernel thread. */
	os_sigmask(os_sigmask(~(uint64_t)0));
	if (signals_unblocked())
		signals_run();
}

/* A signal of the process's that only this thread does not block must not be left without
 * one that was sent in time: neither what was lent to it nor what no kernel thread has taken
 * up yet. When all is blocked nothing more is lent. */
uint64_t signals_last(struct thread *t)
{
	uint64_t mask = gmask(), only = gmask_of(thread_first()->gp) & ~mask;
	uint64_t all = ~(uint64_t)0, set = 0;

	if (signals_of(t) & ~mask)
		signals_run();
	if (t->main || only == 0)
		return mask;
	for (;;) {
		gsigprocmask(SIG_SETMASK, &all, NULL);
		arch_syscall3(SYS_rt_sigpending, (long)&set, SIGSET_BYTES, 0);
		if (((set & only) | (signals_of(t) & ~mask)) == 0)
			return mask;
		gsigprocmask(SIG_SETMASK, &mask, NULL);
		signals_run();
	}
}

/* A handler that calls pthread_exit would find no base to unwind to. The kernel thread need not be
 * told: what it lets in goes to others (on_signal). In this order: what comes in between is lent to
 * us, and signals_end finds it. */
void signals_deafen(struct thread *t)
{
	st_rlx(&t->deaf, true);
	compiler_barrier();
	gmute();
}

void signals_hear(struct thread *t, uint64_t mask)
{
	st_rlx(&t->deaf, false);
	if (mask == gmask())
		return;
	gsigprocmask(SIG_SETMASK, &mask, NULL);
	if (signals_unblocked())
		signals_run();
}

void signals_end(struct thread *t)
{
	give_back(t);
	pending_drop(&t->signals);
}

/* The kernel's word for it, "SigPnd:\t" and 16 digits: there is no call that tells what is
 * pending for the thread from what is for the process. */
static uint64_t kernel_pending(void)
{
	static const char key[] = "SigPnd:";
	char text[4096], *at;
	uint64_t set = 0;
	ssize_t n;
	int fd = open("/proc/thread-self/status", O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return 0;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n > 0 ? n : 0] = 0;
	at = strstr(text, key);
	if (!at)
		return 0;
	for (at += sizeof(key); *at && *at != '\n'; at++)
		set = set << 4 | (uint64_t)(*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
	return set;
}

void signals_adopt(struct thread *t)
{
	static const struct timespec now = { 0, 0 };
	uint64_t mask = gmask(), set = 0;

	arch_syscall3(SYS_rt_sigpending, (long)&set, SIGSET_BYTES, 0);
	if ((set & mask) == 0)
		return;
	set = kernel_pending() & mask;
	for (int sig = 1; sig < SIGNALS; sig++) {
		uint64_t one = signal_bit(sig);
		siginfo_t info;
		/* The thread's own comes before the process's. */
		while ((set & one) && arch_syscall4(SYS_rt_sigtimedwait, (long)&one, (long)&info,
						    (long)&now, SIGSET_BYTES) == sig) {
			pending_add(&t->signals, sig, &info);
			if (sig < FIRST_QUEUED)
				break;
		}
	}
}
