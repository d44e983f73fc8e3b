/* Reports and counters: lines that Go's tools would read, and sums that add up. */
#include "report.h"

#include <pthread.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host.h"
#include "sched.h"

static struct group grp;
static char buf[65536];

static bool matches(const char *text, const char *pattern)
{
	regex_t re;
	bool found;

	EXPECT_EQ(regcomp(&re, pattern, REG_EXTENDED | REG_NOSUB), 0);
	found = regexec(&re, text, 0, NULL, 0) == 0;
	regfree(&re);
	if (!found)
		test_say("  no match: %s", text);
	return found;
}

static void end_at_once(void *arg)
{
	(void)arg;
	group_done(&grp);
}

#define GO_LINE                                                                                    \
	"^SCHED [0-9]+ms: gomaxprocs=%d idleprocs=%d threads=[0-9]+ spinningthreads=[0-9]+ "       \
	"needspinning=[01] idlethreads=[0-9]+ runqueue=%d "                                        \
	"\\[ %d (0 ){%d}\\] schedticks=\\[ ([0-9]+ ){%d}\\]\n$"

TEST(schedtrace_writes_gos_line)
{
	char pattern[512];
	size_t len;

	start_with(1, without_sysmon);
	grp.left = 4;
	/* Three in the local queue and one in runnext, which Go does not count either. */
	for (int i = 0; i < 4; i++)
		go(end_at_once, NULL);
	len = schedtrace(buf, sizeof(buf), false);
	EXPECT_EQ(len, strlen(buf));
	snprintf(pattern, sizeof(pattern), GO_LINE, 1, 0, 0, 3, 0, 1);
	EXPECT(matches(buf, pattern));
	group_wait(&grp);

	EXPECT_EQ(core_setprocs(4), 0);
	while (ld_sc(&sched.npidle) != 3)
		os_yield();
	schedtrace(buf, sizeof(buf), false);
	snprintf(pattern, sizeof(pattern), GO_LINE, 4, 3, 0, 0, 3, 4);
	EXPECT(matches(buf, pattern));
}

static ATOMIC(uint32_t) word;

static void wait_for_word(void *arg)
{
	(void)arg;
	futex_wait(&word, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	group_done(&grp);
}

static bool has_line(const char *format, long long id)
{
	char pattern[256];

	snprintf(pattern, sizeof(pattern), format, id);
	return matches(buf, pattern);
}

TEST(scheddetail_names_each_p_m_and_g)
{
	struct m *ms;
	struct g *gp;

	start(3);
	grp.left = 1;
	lockosthread();
	gp = go(wait_for_word, NULL);
	until_waiting(gp);
	ms = ld_acq(&sched.allm);
	schedtrace(buf, sizeof(buf), true);
	for (int i = 0; i < 3; i++)
		EXPECT(has_line("\n  P%lld: status=[0-4] schedtick=[0-9]+ syscalltick=[0-9]+ "
				"m=-?[0-9]+ runqsize=[0-9]+ gfreecnt=[0-9]+ timerslen=[0-9]+\n",
				i));
	for (struct m *mp = ms; mp; mp = mp->alllink)
		EXPECT(has_line("\n  M%lld: p=-?[0-9]+ curg=-?[0-9]+ spinning=(true|false) "
				"blocked=(true|false) lockedg=-?[0-9]+\n",
				mp->id));
	EXPECT(has_line("\n  M[0-9]+: [^\n]*curg=%lld [^\n]*lockedg=1\n", 1));
	EXPECT(has_line("\n  G%lld: status=4\\(futex\\) m=-1 lockedm=-1\n", (long long)gp->goid));
	EXPECT(has_line("\n  G%lld: status=2\\(\\) m=[0-9]+ lockedm=[0-9]+\n", 1));
	futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0);
	group_wait(&grp);
}

TEST(a_report_is_cut_to_its_buffer)
{
	start(4);
	for (size_t len = 2; len < 600; len++) {
		for (int detail = 0; detail < 2; detail++) {
			memset(buf, '#', sizeof(buf));
			EXPECT(schedtrace(buf, len, detail) < len);
			EXPECT(strnlen(buf, len) < len);
			EXPECT_EQ(buf[len], '#');
		}
	}
}

static void trace_each_ms(struct core_config *config)
{
	config->schedtrace = 1;
}

/* The next line's time, in ms since the start. */
static int next_report(FILE *in)
{
	int ms = -1;

	EXPECT(fgets(buf, sizeof(buf), in) != NULL);
	EXPECT_EQ(sscanf(buf, "SCHED %dms:", &ms), 1);
	return ms;
}

TEST(reports_come_by_themselves_even_when_all_is_idle)
{
	int fds[2], ms = 0, before;
	FILE *in;

	EXPECT_EQ(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	in = fdopen(fds[0], "r");
	start_with(2, trace_each_ms);
	/* Meanwhile every P is idle, for longer than sysmon stays awake without a reason. */
	sleep_ns(2000 * 1000 * 1000ull);
	do {
		before = ms;
		ms = next_report(in);
		EXPECT(ms >= before);
	} while (ms <= 200);
	EXPECT(ms < 1900);
}

/* ---- counters ---- */

static struct stats stats(void)
{
	struct stats s;
	stats_sum(&s);
	return s;
}

static void yield_and_sleep(void *arg)
{
	(void)arg;
	gosched();
	goyield();
	sleep_ns(1000);
	group_done(&grp);
}

static void *start_ten(void *arg)
{
	(void)arg;
	for (int i = 0; i < 10; i++)
		EXPECT_EQ(newproc(yield_and_sleep, NULL, SMALL_STACK, NULL), 0);
	return NULL;
}

TEST(what_is_begun_is_ended_and_counted)
{
	enum { GS = 1000 };
	struct stats s;

	start(2);
	EXPECT_EQ(stats().created, 1);
	grp.left = GS;
	for (int i = 0; i < GS; i++)
		go(yield_and_sleep, NULL);
	group_wait(&grp);
	while (stats().finished != GS)
		gosched();
	s = stats();
	EXPECT_EQ(s.created, GS + 1);
	EXPECT(s.recycled <= s.created);
	EXPECT(s.yields >= 2 * GS);
	EXPECT(s.parks > 0 && s.timersfired <= s.parks);
	/* Each began, and came back from a yield at least once. */
	EXPECT(s.switches >= 2 * GS);
	EXPECT(s.stolen >= s.steals);
	/* The second P's M may still be on its way. */
	while (stats().mstarts == 0)
		os_yield();

	/* Most of these run where others have been. */
	grp.left = GS;
	for (int i = 0; i < GS; i++)
		go(yield_and_sleep, NULL);
	group_wait(&grp);
	EXPECT(stats().recycled >= GS / 2);
}

TEST(gs_of_foreign_threads_are_counted_too)
{
	pthread_t thread;

	start(2);
	grp.left = 10;
	pthread_create(&thread, NULL, start_ten, NULL);
	group_wait(&grp);
	pthread_join(thread, NULL);
	while (stats().finished != 10)
		gosched();
	EXPECT_EQ(stats().created, 11);
}

TEST(every_counter_has_a_p_of_its_own_and_outlives_it)
{
	enum { GS = 100 };
	uint64_t before;

	start(4);
	grp.left = GS;
	for (int i = 0; i < GS; i++)
		go(yield_and_sleep, NULL);
	group_wait(&grp);
	while (stats().finished != GS)
		gosched();
	before = stats().yields;
	EXPECT_EQ(core_setprocs(1), 0);
	EXPECT_EQ(stats().finished, GS);
	EXPECT(stats().yields >= before);
}
