/* Those who take turns at a descriptor: an event wakes one of them, and who was woken sees to the
 * next, so that none sleeps beside what is there. */
#include <poll.h>
#include <sys/syscall.h>

#include "host.h"
#include "netpoll.h"
#include "raw.h"
#include "sched.h"
#include "syscall.h"

static struct group grp;
static int pipe_fd[2];

enum { TAKERS = 100 };
static ATOMIC(uint32_t) woken, taken;

static bool more(int fd)
{
	struct pollfd p = { .fd = fd, .events = POLLIN };

	return arch_syscall3(SYS_poll, (long)&p, 1, 0) == 1;
}

/* Takes one byte, out of a number of those who take turns; who leaves sees to the next. */
static void taker(void *arg)
{
	int fd = (int)(uintptr_t)arg;

	for (;;) {
		struct pollwait w = {
			.fd = fd, .dirs = 1 << POLL_READ, .alone = true, .turns = true
		};
		char c;
		w.ticket[POLL_READ] = netpoll_ticket(fd, POLL_READ);
		if (raw_read(fd, &c, 1) == 1)
			break;
		EXPECT_EQ(netpoll_waitany(&w, 1, NULL), 0);
		add_sc(&woken, 1);
	}
	raise_by(&taken, 1);
	if (more(fd))
		netpoll_pass(fd, POLL_READ);
	group_done(&grp);
}

static void take_turns(int procs, const char *what, uint32_t at_once)
{
	struct g *gp[TAKERS];

	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start_with(procs, without_sysmon);
	grp.left = TAKERS;
	for (int i = 0; i < TAKERS; i++)
		gp[i] = go(taker, (void *)(uintptr_t)pipe_fd[0]);
	for (int i = 0; i < TAKERS; i++)
		until_waiting(gp[i]);
	for (uint32_t i = 0; i < TAKERS; i += at_once) {
		char junk[TAKERS] = "";
		EXPECT_EQ(raw_write(pipe_fd[1], junk, at_once), at_once);
		wait_raised(&taken, i + at_once);
	}
	group_wait(&grp);
	test_say("  %s: %lld wake-ups for %d", what, (long long)ld_sc(&woken), TAKERS);
	/* One for each event, one for each that is passed on, and again for what is taken late;
	 * were all woken, five thousand. */
	EXPECT(ld_sc(&woken) >= TAKERS);
	EXPECT(ld_sc(&woken) <= 4 * TAKERS);
}

TEST(an_event_wakes_one_of_those_that_take_turns)
{
	take_turns(2, "one at a time", 1);
}

TEST(one_event_for_much_wakes_one_after_the_other)
{
	take_turns(2, "all at once", TAKERS);
}

TEST(one_event_for_much_wakes_one_after_the_other_on_one_p)
{
	take_turns(1, "four at a time", 4);
}

/* A wait that has ended otherwise takes no event away from the next. */
static void gives_up(void *arg)
{
	int fd = (int)(uintptr_t)arg;
	struct deadline soon = { 1, now_ns() + 1 * MS };
	struct pollwait w = { .fd = fd, .dirs = 1 << POLL_READ, .alone = true, .turns = true };

	w.ticket[POLL_READ] = netpoll_ticket(fd, POLL_READ);
	if (netpoll_waitany(&w, 1, &soon) == 0)
		netpoll_pass(fd, POLL_READ);
	group_done(&grp);
}

TEST(who_gives_up_leaves_its_turn_to_others)
{
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(4);
	for (uint32_t round = 1; round <= 300; round++) {
		grp.left = 11;
		for (int i = 0; i < 10; i++)
			go(gives_up, (void *)(uintptr_t)pipe_fd[0]);
		go(taker, (void *)(uintptr_t)pipe_fd[0]);
		sleep_ns(1 * MS - 200 * US + round * 1300 % 400 * US);
		EXPECT_EQ(raw_write(pipe_fd[1], "x", 1), 1);
		group_wait(&grp);
		EXPECT_EQ(ld_sc(&taken), round);
	}
}

/* A poke, and a wait that takes no turns, are for all. */
static void waits_for_all(void *arg)
{
	struct pollwait w = { .fd = pipe_fd[0], .dirs = 1 << POLL_READ, .turns = arg != NULL };

	w.ticket[POLL_READ] = netpoll_ticket(pipe_fd[0], POLL_READ);
	EXPECT_EQ(netpoll_waitany(&w, 1, NULL), 0);
	raise_by(&woken, 1);
	group_done(&grp);
}

TEST(those_that_take_no_turns_are_all_woken_and_a_poke_wakes_everybody)
{
	struct g *gp[12];

	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(2);
	grp.left = 12;
	for (uintptr_t i = 0; i < 12; i++)
		gp[i] = go(waits_for_all, (void *)(i % 2));
	for (int i = 0; i < 12; i++)
		until_waiting(gp[i]);
	EXPECT_EQ(raw_write(pipe_fd[1], "x", 1), 1);
	/* Six, and the first of those that take turns. */
	wait_raised(&woken, 7);
	netpoll_poke(pipe_fd[0], POLL_READ);
	group_wait(&grp);
	EXPECT_EQ(ld_sc(&woken), 12);
}
