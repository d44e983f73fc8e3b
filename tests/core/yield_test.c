/* Gs that yield serve those who wait beside them, and are told whether anybody ran. */
#include "host.h"
#include "netpoll.h"
#include "raw.h"
#include "sched.h"

enum { ROUNDS = 100 };

static struct group grp;
static ATOMIC(uint32_t) stop, served;
static int pipe_fd[2];

static long wait_read(char *to, const struct deadline *deadline)
{
	for (;;) {
		uint32_t ticket = netpoll_ticket(pipe_fd[0], POLL_READ);
		long got = raw_read(pipe_fd[0], to, 1);
		if (got != -RAW_EAGAIN)
			return got;
		int r = netpoll_wait(pipe_fd[0], POLL_READ, ticket, deadline);
		if (r < 0)
			return r;
	}
}

static void reader(void *arg)
{
	char c;

	(void)arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		EXPECT_EQ(wait_read(&c, NULL), 1);
		raise_by(&served, 1);
	}
	group_done(&grp);
}

static void yielder(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop))
		gosched();
	group_done(&grp);
}

/* Sysmon looks once in a ms, or in ten, and all others wait for those who yield. */
static void served_by_yielders(int others)
{
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(1);
	grp.left = 1 + (uint32_t)others;
	go(reader, NULL);
	for (int i = 0; i < others; i++)
		go(yielder, NULL);
	gosched();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		EXPECT_EQ(raw_write(pipe_fd[1], "x", 1), 1);
		while (ld_acq(&served) == i)
			gosched();
	}
	st_rlx(&stop, 1);
	group_wait(&grp);
	test_say("  %u of %u by sysmon", (unsigned)ld_rlx(&sched.nopstats.pollready), ROUNDS);
	EXPECT(ld_rlx(&sched.nopstats.pollready) < ROUNDS / 2);
}

TEST(a_reader_is_served_by_who_yields_until_it_is)
{
	served_by_yielders(0);
}

TEST(a_reader_is_served_by_those_who_yield_to_each_other)
{
	served_by_yielders(2);
}

static void reads_for_long(void *arg)
{
	struct deadline never = { CLOCK_MONOTONIC, now_ns() + 1000 * (uint64_t)MS * 1000 };
	char c;

	(void)arg;
	EXPECT_EQ(wait_read(&c, &never), 1);
	group_done(&grp);
}

/* Whatever had to be looked at meanwhile, poller and timers: it asks the kernel for others, then.
 */
TEST(who_yields_to_nobody_is_told_so)
{
	int others = 0;

	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(1);
	grp.left = 1;
	go(reads_for_long, NULL);
	gosched();
	for (uint32_t i = 0; i < ROUNDS; i++) {
		burn_ns(50 * 1000);
		others += gosched();
	}
	EXPECT_EQ(raw_write(pipe_fd[1], "x", 1), 1);
	group_wait(&grp);
	EXPECT(debuglevel >= 2 || others < ROUNDS / 2);
}
