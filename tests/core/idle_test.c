/* L3, to its end: when nobody has anything to do, nobody does anything. Counted in the
 * context switches that the kernel notes of each M. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "netpoll.h"
#include "raw.h"
#include "sched.h"

enum { PARKED = 400, READERS = 400, SLEEPERS = 200, STATUS = 4096 };

static struct group grp;
static ATOMIC(uint32_t) never, ready_to_watch, watched;
static int fds[READERS][2];

static void waits_for_word(void *arg)
{
	(void)arg;
	raise_by(&ready_to_watch, 1);
	while (ld_sc(&never) == 0)
		futex_wait(&never, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	group_done(&grp);
}

static void waits_for_pipe(void *arg)
{
	int fd = fds[(uintptr_t)arg][0];
	char c;

	raise_by(&ready_to_watch, 1);
	for (;;) {
		uint32_t ticket = netpoll_ticket(fd, POLL_READ);
		if (raw_read(fd, &c, 1) == 0)
			break;
		EXPECT_EQ(netpoll_wait(fd, POLL_READ, ticket, NULL), 0);
	}
	group_done(&grp);
}

static void waits_for_long(void *arg)
{
	(void)arg;
	raise_by(&ready_to_watch, 1);
	EXPECT_EQ(gosleep(1, now_ns() + 3600 * (uint64_t)1000 * MS), -RAW_EINTR);
	group_done(&grp);
}

static ATOMIC(uint32_t) ticks;

static void ticker(void *arg)
{
	uint64_t at = now_ns();

	(void)arg;
	while (!ld_sc(&never)) {
		at += 1000 * (uint64_t)MS;
		gosleep(1, at);
		add_sc(&ticks, 1);
	}
	group_done(&grp);
}

/* ---- the watcher: a kernel thread that is no M ---- */
struct seen {
	long voluntary, nonvoluntary;
	int threads;
};

static long number_after(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? atol(at + strlen(name)) : 0;
}

static void status_of(struct m *mp, char text[STATUS])
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/status", ld_rlx(&mp->tid));
	EXPECT(os_readfile(path, text, STATUS) > 0);
}

/* All Ms, sysmon's too; and whether each of them sleeps. */
static struct seen look(bool *asleep)
{
	struct seen s = { 0, 0, 0 };

	*asleep = true;

	for (struct m *mp = ld_acq(&sched.allm); mp; mp = mp->alllink) {
		char text[STATUS];
		status_of(mp, text);
		*asleep &= strstr(text, "\nState:\tS") != NULL;
		s.voluntary += number_after(text, "\nvoluntary_ctxt_switches:");
		s.nonvoluntary += number_after(text, "\nnonvoluntary_ctxt_switches:");
		s.threads++;
	}
	return s;
}

static struct seen before, after;
static uint32_t ticks_seen;
static unsigned watch_seconds;

static void *watch(void *arg)
{
	uint32_t expected = (uint32_t)(uintptr_t)arg;
	struct seen again;
	bool asleep, still;

	wait_raised(&ready_to_watch, expected);
	/* Then sysmon goes to sleep, and who woke for it: some of them wait for a cpu, perhaps. */
	do {
		while (!ld_sc(&sched.sysmonwait))
			usleep(1000);
		before = look(&asleep);
		usleep(300 * 1000);
		again = look(&still);
	} while (!asleep || !still || again.voluntary != before.voluntary ||
		 again.threads != before.threads);
	ticks_seen = ld_sc(&ticks);
	usleep(watch_seconds * 1000000);
	after = look(&asleep);
	ticks_seen = ld_sc(&ticks) - ticks_seen;
	st_sc(&watched, 1);
	futex_wake(&watched, 1, (uint32_t)FUTEX_ANY, 0);
	return NULL;
}

/* What all Ms did while the watcher watched. */
static long switches_while_idle(int procs, bool with_ticker)
{
	enum { WHOLE_S = 10, PART_S = 3 };
	struct g *sleepers[SLEEPERS];

	watch_seconds = procs == 2 && !with_ticker ? WHOLE_S : PART_S;
	for (int i = 0; i < READERS; i++)
		raw_pipe(fds[i], RAW_NONBLOCK);
	start(procs);
	watcher(watch, (void *)(uintptr_t)(PARKED + READERS + SLEEPERS));
	grp.left = PARKED + READERS + SLEEPERS + (with_ticker ? 1 : 0);
	for (int i = 0; i < PARKED; i++)
		go(waits_for_word, NULL);
	for (uintptr_t i = 0; i < READERS; i++)
		go(waits_for_pipe, (void *)i);
	for (int i = 0; i < SLEEPERS; i++)
		sleepers[i] = go(waits_for_long, NULL);
	if (with_ticker)
		go(ticker, NULL);
	while (!ld_sc(&watched))
		futex_wait(&watched, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	test_say("  %lld threads, %lld s: %lld voluntary and %lld other switches",
		 (long long)after.threads, (long long)watch_seconds,
		 (long long)(after.voluntary - before.voluntary),
		 (long long)(after.nonvoluntary - before.nonvoluntary));
	/* But for one that had to wait for a cpu, whose P was taken. */
	EXPECT(after.threads - before.threads <= after.nonvoluntary - before.nonvoluntary);

	/* And all of them can still be woken. */
	st_sc(&never, 1);
	futex_wake(&never, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	for (int i = 0; i < READERS; i++)
		raw_close(fds[i][1]);
	for (int i = 0; i < SLEEPERS; i++)
		EXPECT(gointerrupt(sleepers[i]));
	group_wait(&grp);
	if (!with_ticker)
		EXPECT_EQ(after.nonvoluntary - before.nonvoluntary, 0);
	return after.voluntary - before.voluntary;
}

TEST(an_idle_process_makes_no_wakeup)
{
	EXPECT_EQ(switches_while_idle(2, false), 0);
}

TEST(an_idle_process_of_one_p_makes_no_wakeup)
{
	EXPECT_EQ(switches_while_idle(1, false), 0);
}

TEST(an_idle_process_of_many_ps_makes_no_wakeup)
{
	EXPECT_EQ(switches_while_idle(64, false), 0);
}

TEST(one_who_sleeps_a_second_at_a_time_wakes_nobody_else)
{
	long n = switches_while_idle(2, true);

	EXPECT(ticks_seen > 0);
	test_say("  %lld switches for each of %lld times that it woke", (long long)n / ticks_seen,
		 (long long)ticks_seen);
	/* Its M, sysmon's rounds, of which there are more where others have the cpu, and what they
	 * find on the way: on a quiet machine five. */
	EXPECT(n <= 50 * (long)ticks_seen);
}

/* ---- a server that is asked now and then ---- */
enum { ASKED = 300, GAP_MS = 3 };

static int answers[2];
static long sysmon_woke, took_ms, long_gaps;

static void answers_all(void *arg)
{
	int fd = fds[0][0];
	char c;

	(void)arg;
	for (;;) {
		uint32_t ticket = netpoll_ticket(fd, POLL_READ);
		long n = raw_read(fd, &c, 1);
		if (n == 0)
			break;
		if (n == 1)
			EXPECT_EQ(raw_write(answers[1], &c, 1), 1);
		else
			EXPECT_EQ(netpoll_wait(fd, POLL_READ, ticket, NULL), 0);
	}
	group_done(&grp);
}

static long sysmon_switches(void)
{
	char text[STATUS];

	status_of(sched.sysmonm, text);
	return number_after(text, "\nvoluntary_ctxt_switches:");
}

static void *asks(void *arg)
{
	long woke = sysmon_switches();
	uint64_t began = now_ns(), last = began;
	char c = 0;

	for (int i = 0; i < ASKED; i++) {
		usleep(GAP_MS * 1000);
		EXPECT_EQ(raw_write(fds[0][1], &c, 1), 1);
		EXPECT_EQ(raw_read(answers[0], &c, 1), 1);
		/* Where others have the cpu: after such a pause sysmon sleeps deeply. */
		long_gaps += now_ns() - last > (uint64_t)2 * GAP_MS * MS;
		last = now_ns();
	}
	took_ms = (long)((now_ns() - began) / MS);
	sysmon_woke = sysmon_switches() - woke;
	raw_close(fds[0][1]);
	return arg;
}

static void wakes_of_sysmon(int procs)
{
	raw_pipe(fds[0], RAW_NONBLOCK);
	raw_pipe(answers, 0);
	start(procs);
	watcher(asks, NULL);
	grp.left = 1;
	go(answers_all, NULL);
	group_wait(&grp);
	test_say("  %lld wakes in %lld ms, %lld long gaps", (long long)sysmon_woke,
		 (long long)took_ms, (long long)long_gaps);
}

TEST(who_is_asked_now_and_then_does_not_wake_sysmon_each_time)
{
	wakes_of_sysmon(2);
	/* Each 10 ms. */
	EXPECT(sysmon_woke <= took_ms / 10 * 2 + long_gaps * 10 + 10);
}

/* Who comes out of the poller with the last P tells sysmon, which looks each ms for a while. */
TEST(on_one_p_it_looks_no_more_than_each_ms)
{
	wakes_of_sysmon(1);
	EXPECT(sysmon_woke <= took_ms + took_ms / 4 + long_gaps * 10 + 10);
}

/* Nor one that sleeps for a ms again and again. */
TEST(who_sleeps_for_a_ms_again_and_again_does_not_wake_sysmon_each_time)
{
	uint64_t began;
	long woke;

	start(1);
	began = now_ns();
	woke = sysmon_switches();
	for (int i = 0; i < ASKED; i++) {
		uint64_t slept = now_ns();
		gosleep(1, slept + MS);
		/* Its M waited for a cpu, with the P: sysmon looks at who has one. */
		long_gaps += now_ns() - slept > MS + MS / 2;
	}
	took_ms = (long)((now_ns() - began) / MS);
	woke = sysmon_switches() - woke;
	test_say("  %lld wakes in %lld ms", (long long)woke, (long long)took_ms);
	/* Roused by each of them it would wake more than once for each. */
	EXPECT(woke <= took_ms + long_gaps * 10);
}

/* ---- who blocks after a pause, while another waits for his P ---- */
enum { PAUSES = 40, PAUSE_MS = 25, SOON_MS = 4 };

static ATOMIC(uint32_t) ran;
static ATOMIC(uint64_t) ranat;

static void says_when(void *arg)
{
	(void)arg;
	st_sc(&ranat, now_ns());
	raise_by(&ran, 1);
}

/* Many short pauses, in which sysmon finds all idle, and work done since it looked. */
static int soon_after_pauses(bool announced)
{
	int soon = 0;

	start(1);
	for (uint32_t i = 0; i < PAUSES; i++) {
		uint64_t since;
		for (int k = 0; k < 12; k++)
			gosleep(1, now_ns() + (uint64_t)GAP_MS * MS);
		since = now_ns();
		go(says_when, NULL);
		if (announced)
			entersyscall();
		usleep(PAUSE_MS * 1000);
		if (announced)
			exitsyscall();
		wait_raised(&ran, i + 1);
		soon += ld_sc(&ranat) - since < (uint64_t)SOON_MS * MS;
	}
	test_say("  %d of %d within %d ms", soon, PAUSES, SOON_MS);
	return soon;
}

TEST(the_p_of_a_call_after_a_pause_is_soon_another_s)
{
	EXPECT(soon_after_pauses(true) >= PAUSES / 2);
}

TEST(the_p_of_one_that_blocks_after_a_pause_is_soon_another_s)
{
	EXPECT(soon_after_pauses(false) >= PAUSES / 2);
}
