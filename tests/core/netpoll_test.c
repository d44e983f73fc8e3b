/* The poller on a running core: who waits for a descriptor is woken, in time, whatever
 * others do to it, and whoever else wants the cpu. */
#include "netpoll.h"

#include <fcntl.h>
#include <unistd.h>

#include "host.h"
#include "pollwait.h"
#include "raw.h"
#include "sched.h"

static struct group grp;
static ATOMIC(uint32_t) stop;
static int pipe_fd[2];

static void hog(void *arg)
{
	(void)arg;
	compute_until(&stop);
	group_done(&grp);
}

/* As a blocking read is told in Gs: ticket, try, wait. 0 or more, or -errno. */
static long wait_read(int fd, void *to, size_t n, const struct deadline *deadline)
{
	for (;;) {
		uint32_t ticket = netpoll_ticket(fd, POLL_READ);
		long got = raw_read(fd, to, n);
		if (got != -RAW_EAGAIN)
			return got;
		int r = netpoll_wait(fd, POLL_READ, ticket, deadline);
		if (r < 0)
			return r;
	}
}

static long wait_write(int fd, const void *from, size_t n)
{
	for (;;) {
		uint32_t ticket = netpoll_ticket(fd, POLL_WRITE);
		long put = raw_write(fd, from, n);
		if (put != -RAW_EAGAIN)
			return put;
		int r = netpoll_wait(fd, POLL_WRITE, ticket, NULL);
		if (r < 0)
			return r;
	}
}

/* ---- beside a hog ---- */
enum { ROUNDS = 100 };

static uint64_t took[ROUNDS];
static ATOMIC(uint64_t) written_at;
static ATOMIC(uint32_t) served;

static void timed_reader(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		unsigned char c = 0;
		EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, NULL), 1);
		took[i] = now_ns() - ld_sc(&written_at);
		EXPECT_EQ(c, (unsigned char)i);
		raise_by(&served, 1);
	}
	group_done(&grp);
}

/* A kernel thread that is no M, so that no P is ever free for its sake. */
static void *timed_writer(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		unsigned char c = (unsigned char)i;
		/* In the midst of a hog's time. */
		usleep(3000 + i * 37 % 1000);
		st_sc(&written_at, now_ns());
		EXPECT_EQ(write(pipe_fd[1], &c, 1), 1);
		wait_raised(&served, i + 1);
	}
	return NULL;
}

/* Computes for 8 ms, sleeps for 2: its P is idle now and then, and an M in the poller. */
static void burster(void *arg)
{
	(void)arg;
	while (!ld_rlx(&stop)) {
		burn_ns(8 * MS);
		sleep_ns(2 * MS);
	}
	group_done(&grp);
}

static void served_beside(int procs, int hogs, void (*fn)(void *), const char *what)
{
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(procs);
	watcher(timed_writer, NULL);
	grp.left = (uint32_t)hogs + 1;
	go(timed_reader, NULL);
	for (int i = 0; i < hogs; i++)
		go(fn, NULL);
	wait_raised(&served, ROUNDS);
	st_rlx(&stop, 1);
	group_wait(&grp);
	say_spread(what, took, ROUNDS);
	EXPECT(at_best(took, ROUNDS) < 20 * MS);
	EXPECT(took[ROUNDS - 1] < SLOW_NS);
}

TEST(a_reader_is_served_beside_a_hog)
{
	if (can_preempt())
		served_beside(1, 1, hog, "a reader beside a hog is served after");
	else
		skipped("this build cannot stop a G by signal");
}

TEST(a_reader_is_served_beside_more_hogs_than_ps)
{
	if (can_preempt())
		served_beside(2, 4, hog, "a reader beside hogs is served after");
	else
		skipped("this build cannot stop a G by signal");
}

TEST(a_reader_is_served_beside_bursts)
{
	if (can_preempt())
		served_beside(1, 1, burster, "a reader beside bursts is served after");
	else
		skipped("this build cannot stop a G by signal");
}

TEST(a_reader_is_served_by_an_idle_process)
{
	served_beside(2, 0, NULL, "a reader in an idle process is served after");
}

/* ---- the M that blocks in the poller is told of what is due sooner ---- */
static ATOMIC(uint64_t) worst_late;
static ATOMIC(uint32_t) late_ones;
static struct group sleepers;

static void short_sleeper(void *arg)
{
	uint64_t due = now_ns() + (uintptr_t)arg, late, worst;

	EXPECT_EQ(gosleep(1, due), 0);
	late = now_ns() - due;
	if (late >= 100 * MS)
		add_rlx(&late_ones, 1);
	while ((worst = ld_rlx(&worst_late)) < late && !cas_rlx(&worst_late, worst, late))
		;
	group_done(&sleepers);
}

static void starter(void *arg)
{
	uint64_t seed = test_seed() + (uintptr_t)arg;

	/* Each time all Ps have gone idle behind somebody who waits for long. */
	for (int i = 0; i < 100; i++) {
		go(short_sleeper, (void *)(uintptr_t)(random_below(&seed, 3000) * US));
		sleep_ns((2 + random_below(&seed, 4)) * MS);
	}
	group_done(&sleepers);
}

static void long_waiter(void *arg)
{
	struct deadline never = { 1, now_ns() + 3600 * (uint64_t)1000 * MS };
	char c;

	(void)arg;
	EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, &never), 0);
	group_done(&grp);
}

TEST(a_poll_ends_for_a_timer_that_is_due_sooner)
{
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(4);
	sleepers.left = 3 + 300;
	grp.left = 10;
	for (int i = 0; i < 10; i++)
		go(long_waiter, NULL);
	for (uintptr_t i = 0; i < 3; i++)
		go(starter, (void *)i);
	group_wait(&sleepers);
	raw_close(pipe_fd[1]);
	group_wait(&grp);
	test_say("  of 300 sleepers the latest was late by %lld us",
		 (long long)ld_rlx(&worst_late) / US);
	EXPECT(ld_rlx(&late_ones) < 150);
	EXPECT(ld_rlx(&worst_late) < SLOW_NS);
}

/* ---- deadlines ---- */
TEST(a_read_with_a_deadline_ends_in_time)
{
	char c = 0;

	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(2);
	for (uint64_t ms = 0; ms < 20; ms++) {
		struct deadline d = { 1, now_ns() + ms * MS };
		EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, &d), -110);
		EXPECT(now_ns() >= d.at);
		EXPECT(now_ns() < d.at + SLOW_NS);
		/* On another clock, too. */
		d.clock = 0;
		struct timespec ts;
		clock_gettime(CLOCK_REALTIME, &ts);
		d.at = (uint64_t)ts.tv_sec * 1000 * MS + (uint64_t)ts.tv_nsec + ms * MS;
		EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, &d), -110);
	}
	struct deadline d = { 1, now_ns() + SLOW_NS };
	EXPECT_EQ(raw_write(pipe_fd[1], "x", 1), 1);
	EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, &d), 1);
	EXPECT_EQ(c, 'x');
}

/* ---- several readers of one descriptor ---- */
enum { READERS = 50 };

static ATOMIC(uint32_t) taken;

static void one_byte(void *arg)
{
	unsigned char c = 0;

	EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, NULL), 1);
	add_sc((ATOMIC(uint32_t) *)arg, c);
	raise_by(&taken, 1);
	group_done(&grp);
}

TEST(several_readers_of_one_descriptor_are_all_served)
{
	static ATOMIC(uint32_t) sum;

	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(4);
	for (int round = 0; round < 20; round++) {
		st_sc(&sum, 0);
		st_sc(&taken, 0);
		grp.left = READERS;
		for (int i = 0; i < READERS; i++)
			go(one_byte, (void *)&sum);
		for (unsigned char i = 0; i < READERS;) {
			unsigned char some[3] = { i, (unsigned char)(i + 1),
						  (unsigned char)(i + 2) };
			size_t n = READERS - i < 3 ? (size_t)(READERS - i) : 3;
			EXPECT_EQ(raw_write(pipe_fd[1], some, n), n);
			i = (unsigned char)(i + n);
			if (round % 2)
				wait_raised(&taken, i);
		}
		group_wait(&grp);
		EXPECT_EQ(ld_sc(&sum), READERS * (READERS - 1) / 2);
	}
}

/* ---- an event between ticket and wait ---- */
enum { PAIRS = 4, MESSAGES = 3000 };

static int sockets[PAIRS][2];

static void echo(void *arg)
{
	int fd = sockets[(uintptr_t)arg][1];
	uint32_t n;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		EXPECT_EQ(wait_read(fd, &n, sizeof(n), NULL), sizeof(n));
		EXPECT_EQ(n, i);
		EXPECT_EQ(wait_write(fd, &n, sizeof(n)), sizeof(n));
	}
	group_done(&grp);
}

static void caller(void *arg)
{
	int fd = sockets[(uintptr_t)arg][0];
	uint64_t seed = test_seed() + (uintptr_t)arg;
	uint32_t n;

	for (uint32_t i = 0; i < MESSAGES; i++) {
		burn_ns(random_below(&seed, 8) * US / 2);
		EXPECT_EQ(wait_write(fd, &i, sizeof(i)), sizeof(i));
		burn_ns(random_below(&seed, 8) * US / 2);
		EXPECT_EQ(wait_read(fd, &n, sizeof(n), NULL), sizeof(n));
		EXPECT_EQ(n, i);
	}
	group_done(&grp);
}

static void no_event_is_lost(int procs)
{
	start(procs);
	grp.left = 2 * PAIRS;
	for (uintptr_t i = 0; i < PAIRS; i++) {
		/* AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK */
		EXPECT_EQ(arch_syscall4(__NR_socketpair, 1, 1 | RAW_NONBLOCK, 0, (long)sockets[i]),
			  0);
		go(echo, (void *)i);
		go(caller, (void *)i);
	}
	uint64_t t = now_ns();
	group_wait(&grp);
	test_say("  %lld us for a message there and back",
		 (long long)((now_ns() - t) / US / MESSAGES / PAIRS));
}

TEST(an_event_between_ticket_and_wait_is_not_lost)
{
	no_event_is_lost(2);
}

TEST(an_event_between_ticket_and_wait_is_not_lost_on_one_p)
{
	no_event_is_lost(1);
}

TEST(an_event_between_ticket_and_wait_is_not_lost_on_many_ps)
{
	no_event_is_lost(16);
}

/* ---- descriptors that are closed and reused without our being told ---- */
static void late_reader(void *arg)
{
	unsigned char c = 0;

	(void)arg;
	EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, NULL), 1);
	took[ld_sc(&served)] = now_ns() - ld_sc(&written_at);
	EXPECT_EQ(c, (unsigned char)ld_sc(&served));
	raise_by(&served, 1);
	group_done(&grp);
}

static void close_both(void)
{
	raw_close(pipe_fd[0]);
	raw_close(pipe_fd[1]);
}

/* As close, but the file lives on behind another descriptor, and so does its registration. */
static int kept;

static void close_one_of_two(void)
{
	if (kept > 0)
		raw_close(kept);
	kept = (int)arch_syscall3(__NR_dup, pipe_fd[0], 0, 0);
	EXPECT(kept >= 0);
	close_both();
}

/* A new pipe at the old numbers, which take_away has freed or not. */
static void renew(void (*take_away)(void))
{
	int fresh[2];

	raw_pipe(fresh, RAW_NONBLOCK);
	take_away();
	for (int i = 0; i < 2; i++) {
		EXPECT_EQ(arch_syscall3(__NR_dup2, fresh[i], pipe_fd[i], 0), pipe_fd[i]);
		raw_close(fresh[i]);
	}
}

static void leave_open(void)
{
}

/* A new pipe behind an old number, and a wait for it while some M blocks in the poller,
 * and others do or do not use their Ps. */
static void not_lost(int procs, int hogs, void (*take_away)(void))
{
	start(procs);
	grp.left = (uint32_t)hogs;
	for (int i = 0; i < hogs; i++)
		go(hog, NULL);
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		unsigned char c = (unsigned char)i;
		add_sc(&grp.left, 1);
		go(late_reader, NULL);
		/* Until it waits, and an M in the poller on its behalf, which nothing tells. */
		sleep_ns(3 * MS);
		st_sc(&written_at, now_ns());
		EXPECT_EQ(raw_write(pipe_fd[1], &c, 1), 1);
		EXPECT(raised_within(&served, i + 1, SLOW_NS));
		renew(take_away);
	}
	st_rlx(&stop, 1);
	group_wait(&grp);
	say_spread("a reader of a reused descriptor is served after", took, ROUNDS);
	EXPECT(took[ROUNDS / 2] < 100 * MS);
	EXPECT(took[ROUNDS - 1] < SLOW_NS);
}

TEST(a_descriptor_reused_behind_our_back_loses_no_wake_up)
{
	not_lost(2, 0, close_both);
}

TEST(a_descriptor_reused_behind_our_back_loses_no_wake_up_on_one_p)
{
	not_lost(1, 0, close_both);
}

TEST(a_descriptor_reused_behind_our_back_loses_no_wake_up_beside_a_hog)
{
	if (can_preempt())
		not_lost(2, 1, close_both);
	else
		skipped("this build cannot stop a G by signal");
}

TEST(a_descriptor_replaced_by_dup2_loses_no_wake_up)
{
	not_lost(2, 0, leave_open);
}

TEST(a_descriptor_whose_old_file_lives_on_loses_no_wake_up)
{
	not_lost(2, 0, close_one_of_two);
}

/* The same with nobody who sleeps for a moment: every P is idle, no timer is due, and an M
 * blocks in the poller already when the wait for the new pipe begins. */
static ATOMIC(uint32_t) opened, asked, told;

static void quiet_reader(void *arg)
{
	for (uint32_t i = 0; i < ROUNDS; i++) {
		unsigned char c = 0;
		wait_raised(&told, i + 1);
		raw_pipe(pipe_fd, RAW_NONBLOCK);
		uint32_t ticket = netpoll_ticket(pipe_fd[0], POLL_READ);
		EXPECT_EQ(raw_read(pipe_fd[0], &c, 1), -RAW_EAGAIN);
		raise_by(&opened, 1);
		EXPECT_EQ(netpoll_wait(pipe_fd[0], POLL_READ, ticket, NULL), 0);
		EXPECT_EQ(wait_read(pipe_fd[0], &c, 1, NULL), 1);
		took[i] = now_ns() - ld_sc(&written_at);
		close_both();
		raise_by(&served, 1);
	}
	EXPECT_EQ(raw_write((int)(uintptr_t)arg, "y", 1), 1);
	group_done(&grp);
}

static void *quiet_writer(void *arg)
{
	(void)arg;
	for (uint32_t i = 0; i < ROUNDS; i++) {
		/* As below, but for the wait before. */
		usleep(2000);
		raise_by(&told, 1);
		wait_raised(&opened, i + 1);
		/* Long enough for everybody, sysmon too, to have gone to sleep. */
		usleep(i % 10 == 0 ? 150000 : 2000);
		st_sc(&written_at, now_ns());
		EXPECT_EQ(write(pipe_fd[1], "x", 1), 1);
		EXPECT(raised_within(&served, i + 1, SLOW_NS));
	}
	return NULL;
}

TEST(a_descriptor_reused_in_an_idle_process_loses_no_wake_up)
{
	int other[2];

	raw_pipe(other, RAW_NONBLOCK);
	start(2);
	grp.left = 2;
	/* One who keeps an M in the poller all the time, and is told at the end. */
	pipe_fd[0] = other[0];
	until_waiting(go(one_byte, (void *)&asked));
	go(quiet_reader, (void *)(uintptr_t)other[1]);
	watcher(quiet_writer, NULL);
	group_wait(&grp);
	say_spread("a reader of a reused descriptor in an idle process is served after", took,
		   ROUNDS);
	EXPECT(took[ROUNDS / 2] < 100 * MS);
	EXPECT(took[ROUNDS - 1] < SLOW_NS);
}

/* ---- forget ---- */
static ATOMIC(uint32_t) ended;

static void waits_once(void *arg)
{
	int fd = (int)(uintptr_t)arg;
	uint32_t ticket = netpoll_ticket(fd, POLL_READ);

	int r;

	raise_by(&asked, 1);
	r = netpoll_wait(fd, POLL_READ, ticket, NULL);
	EXPECT(r == 0 || r == -116);
	if (r != 0)
		add_sc(&ended, 1);
	group_done(&grp);
}

TEST(forgetting_a_descriptor_wakes_all_who_wait_for_it)
{
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	start(4);
	for (int round = 0; round < 200; round++) {
		grp.left = 10;
		st_sc(&asked, 0);
		st_sc(&ended, 0);
		struct g *gp[10];
		for (int i = 0; i < 10; i++)
			gp[i] = go(waits_once, (void *)(uintptr_t)pipe_fd[0]);
		wait_raised(&asked, 10);
		for (int i = 0; i < 10 && round % 2; i++)
			until_waiting(gp[i]);
		/* One that has its ticket but does not wait yet must not sleep either. */
		int n = netpoll_forget(pipe_fd[0], -1);
		group_wait(&grp);
		EXPECT_EQ(ld_sc(&ended), n);
		if (round % 2)
			EXPECT_EQ(n, 10);
	}
}

/* ---- several descriptors at once ---- */
enum { MANY = 40, SELECTORS = 4 };

static int many[MANY][2];
static ATOMIC(uint32_t) bytes_read, bytes_written;
static struct group feeders;

/* Waits for all of them and reads what there is, until one has ended. Without a deadline, or with
 * one that never comes, so that a lost event is one for good. */
static void selector(void *arg)
{
	struct deadline never = { 1, now_ns() + 3600 * (uint64_t)1000 * MS };

	for (bool over = false; !over;) {
		struct pollwait w[MANY];
		char buf[64];
		uint32_t got = 0;
		for (int i = 0; i < MANY; i++) {
			w[i] = (struct pollwait){ .fd = i % 7 == 6 ? -1 : many[i][0],
						  .dirs = 1 << POLL_READ };
		}
		netpoll_tickets(w, MANY);
		for (int i = 0; i < MANY; i++) {
			long n = i % 7 == 6 ? -RAW_EAGAIN : raw_read(many[i][0], buf, sizeof(buf));
			if (n > 0)
				got += (uint32_t)n;
			over |= n == 0;
		}
		if (got != 0)
			raise_by(&bytes_read, got);
		else if (!over)
			EXPECT_EQ(netpoll_waitany(w, MANY, (uintptr_t)arg % 2 ? &never : NULL), 0);
	}
	group_done(&grp);
}

static void feeder(void *arg)
{
	uint64_t seed = test_seed() + (uintptr_t)arg;

	for (int i = 0; i < 5000; i++) {
		uint64_t at = random_below(&seed, MANY);
		long n;
		if (at % 7 == 6)
			continue;
		n = raw_write(many[at][1], "0123456789", 1 + random_below(&seed, 10));
		if (n > 0)
			add_sc(&bytes_written, (uint32_t)n);
		if (random_below(&seed, 4) == 0)
			gosched();
		/* Now and then long enough for all selectors to wait. */
		if (random_below(&seed, 50) == 0)
			sleep_ns(random_below(&seed, 100) * US);
	}
	group_done(&feeders);
}

static void waits_for_any(int procs)
{
	start(procs);
	for (int i = 0; i < MANY; i++)
		raw_pipe(many[i], RAW_NONBLOCK);
	grp.left = SELECTORS;
	feeders.left = 2;
	for (uintptr_t i = 0; i < SELECTORS; i++)
		go(selector, (void *)i);
	go(feeder, (void *)0);
	go(feeder, (void *)1);
	group_wait(&feeders);
	EXPECT(raised_within(&bytes_read, ld_sc(&bytes_written), SLOW_NS));
	raw_close(many[0][1]);
	group_wait(&grp);
	EXPECT_EQ(ld_sc(&bytes_read), ld_sc(&bytes_written));
}

TEST(an_event_on_any_of_many_descriptors_ends_the_wait)
{
	waits_for_any(2);
}

TEST(an_event_on_any_of_many_descriptors_ends_the_wait_on_one_p)
{
	waits_for_any(1);
}

TEST(an_event_on_any_of_many_descriptors_ends_the_wait_on_many_ps)
{
	waits_for_any(16);
}

TEST(a_wait_for_any_returns_for_an_event_after_the_tickets)
{
	struct pollwait w[2];
	struct deadline soon = { 1, 0 };

	start(2);
	raw_pipe(many[0], RAW_NONBLOCK);
	raw_pipe(many[1], RAW_NONBLOCK);
	for (int i = 0; i < 2; i++)
		w[i] = (struct pollwait){ .fd = many[i][0], .dirs = 1 << POLL_READ };
	netpoll_tickets(w, 2);
	soon.at = now_ns() + 3 * MS;
	EXPECT_EQ(netpoll_waitany(w, 2, &soon), -110);
	EXPECT_EQ(raw_write(many[1][1], "x", 1), 1);
	soon.at = now_ns() + SLOW_NS;
	EXPECT_EQ(netpoll_waitany(w, 2, &soon), 0);
	/* A descriptor that cannot be waited for refuses the whole. */
	w[1].fd = 777;
	EXPECT_EQ(netpoll_waitany(w, 2, &soon), -9);
}

static void waits_for_two(void *arg)
{
	struct pollwait *w = arg;

	for (int i = 0; i < 2; i++)
		w[i] = (struct pollwait){ .fd = many[i][0], .dirs = 1 << POLL_READ };
	netpoll_tickets(w, 2);
	EXPECT_EQ(netpoll_waitany(w, 2, NULL), -116);
	group_done(&grp);
}

TEST(who_waits_for_several_hears_of_each_that_is_forgotten)
{
	static struct pollwait w[2];

	start(1);
	raw_pipe(many[0], RAW_NONBLOCK);
	raw_pipe(many[1], RAW_NONBLOCK);
	grp.left = 1;
	until_waiting(go(waits_for_two, w));
	EXPECT_EQ(netpoll_forget(many[0][0], 901), 1);
	/* It has not run since, and is woken already. */
	EXPECT_EQ(netpoll_forget(many[1][0], 902), 1);
	group_wait(&grp);
	EXPECT_EQ(w[0].moved, 901);
	EXPECT_EQ(w[1].moved, 902);
}

/* ---- what cannot be polled ---- */
TEST(a_file_that_is_always_ready_is_refused)
{
	int file = open("/proc/self/exe", O_RDONLY);

	EXPECT(file >= 0);
	start(2);
	EXPECT_EQ(netpoll_wait(file, POLL_READ, netpoll_ticket(file, POLL_READ), NULL), -1);
	EXPECT_EQ(netpoll_wait(file, POLL_WRITE, netpoll_ticket(file, POLL_WRITE), NULL), -1);
}

TEST(a_descriptor_that_is_not_open_is_refused)
{
	start(2);
	EXPECT_EQ(netpoll_wait(-1, POLL_READ, 0, NULL), -9);
	EXPECT_EQ(netpoll_wait(777, POLL_READ, netpoll_ticket(777, POLL_READ), NULL), -9);
	/* It is no secret of ours that it once was open. */
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	struct deadline soon = { 1, now_ns() + 1 * MS };
	EXPECT_EQ(netpoll_wait(pipe_fd[0], POLL_READ, 0, &soon), -110);
	raw_close(pipe_fd[0]);
	netpoll_forget(pipe_fd[0], -1);
	EXPECT_EQ(netpoll_wait(pipe_fd[0], POLL_READ, netpoll_ticket(pipe_fd[0], POLL_READ), NULL),
		  -9);
}

/* ---- events for nobody ---- */
static void reads_one(void *arg)
{
	char c;
	EXPECT_EQ(wait_read(*(int *)arg, &c, 1, NULL), 1);
	group_done(&grp);
}

static void reads_when_it_comes(int *fd)
{
	go(reads_one, fd);
	while (!netpoll_busy(*fd))
		gosched();
}

/* Somebody waits for another one, so an M sleeps in the poller. */
TEST(a_descriptor_whose_events_are_for_nobody_is_given_up_until_somebody_waits)
{
	int other[2];
	char c = 0;

	start(2);
	raw_pipe(pipe_fd, RAW_NONBLOCK);
	raw_pipe(other, RAW_NONBLOCK);
	grp.left = 4;
	reads_when_it_comes(&other[0]);
	for (int i = 0; i < 3; i++) {
		reads_when_it_comes(&pipe_fd[0]);
		/* Until it has what is its own: what comes after that is nobody's. */
		EXPECT_EQ(raw_write(pipe_fd[1], &c, 1), 1);
		while (ld_rlx(&grp.left) + (uint32_t)i > 3)
			gosched();
		do {
			EXPECT_EQ(raw_write(pipe_fd[1], &c, 1), 1);
			raw_read(pipe_fd[0], &c, 1);
		} while (ld_rlx(&descof(pipe_fd[0], false)->registered) & POLL_BOTH);
	}
	EXPECT_EQ(raw_write(other[1], &c, 1), 1);
	group_wait(&grp);
}

/* ---- those who wait cost nothing to those who do not ---- */
enum { IDLERS = 1000 };

/* In cpu time. */
static uint64_t there_and_back(void)
{
	uint64_t t = cpu_ns();

	grp.left = 2;
	go(echo, (void *)0);
	go(caller, (void *)0);
	group_wait(&grp);
	return (cpu_ns() - t) / MESSAGES;
}

static uint64_t fastest_of_five(void)
{
	uint64_t fastest = UINT64_MAX;

	for (int i = 0; i < 5; i++) {
		uint64_t ns = there_and_back();
		fastest = ns < fastest ? ns : fastest;
	}
	return fastest;
}

static struct group idlers;

static void idler(void *arg)
{
	char c;
	EXPECT_EQ(wait_read((int)(uintptr_t)arg, &c, 1, NULL), 0);
	group_done(&idlers);
}

TEST(a_thousand_who_wait_cost_the_others_nothing)
{
	static int fds[IDLERS][2];

	start(2);
	EXPECT_EQ(arch_syscall4(__NR_socketpair, 1, 1 | RAW_NONBLOCK, 0, (long)sockets[0]), 0);
	uint64_t alone = fastest_of_five();
	idlers.left = IDLERS;
	for (int i = 0; i < IDLERS; i++) {
		raw_pipe(fds[i], RAW_NONBLOCK);
		go(idler, (void *)(uintptr_t)fds[i][0]);
	}
	uint64_t beside = fastest_of_five();
	for (int i = 0; i < IDLERS; i++)
		raw_close(fds[i][1]);
	group_wait(&idlers);
	test_say(
		"  a message there and back: %lld ns of cpu alone, %lld ns beside a thousand who wait",
		(long long)alone, (long long)beside);
	/* ThreadSanitizer makes it three times as much. */
	EXPECT(beside < 10 * alone);
}
