/* The storms of stress_test.c: what their Gs do, and what must be true of the counts when
 * all have ended. Each is begun by the test's G and ends by itself when over() says so. */
#ifndef HEDDLE_TESTS_STORMS_H
#define HEDDLE_TESTS_STORMS_H

#include "host.h"
#include "netpoll.h"
#include "raw.h"
#include "registers.h"
#include "sched.h"

static struct group grp;
static uint64_t deadline, lasts = 500 * (uint64_t)MS;
static int nprocs;

static bool over(void)
{
	return now_ns() >= deadline;
}

/* A G of a storm, with random numbers of its own. */
static ATOMIC(uint64_t) streams;

static uint64_t stream(void)
{
	return (test_seed() ^ add_rlx(&streams, 1) * 0x9e3779b97f4a7c15u) | 1;
}

static struct g *join_storm(void (*fn)(void *), void *arg)
{
	add_sc(&grp.left, 1);
	return go(fn, arg);
}

static void many(int n, void (*fn)(void *))
{
	for (intptr_t i = 0; i < n; i++)
		join_storm(fn, (void *)i);
}

static void give_way(uint64_t *seed)
{
	if (random_below(seed, 2))
		gosched();
	else
		goyield();
}

/* ---- spawning ---- */
enum { SPAWN_MAX = 400000, SPAWN_LIVE = 1000 };

static ATOMIC(uint8_t) spawn_runs[SPAWN_MAX];
static ATOMIC(uint32_t) spawned, spawn_live;

static void spawn_one(void);

static void spawned_g(void *arg)
{
	uint64_t seed = stream();

	EXPECT_EQ(add_rlx(&spawn_runs[(uintptr_t)arg], 1), 0);
	for (uint32_t n = random_below(&seed, 4); n > 0; n--) {
		spawn_one();
		if (random_below(&seed, 8) == 0)
			give_way(&seed);
	}
	add_rlx(&spawn_live, (uint32_t)-1);
	group_done(&grp);
}

static void spawn_one(void)
{
	if (over() || ld_rlx(&spawn_live) >= SPAWN_LIVE || ld_rlx(&spawned) >= SPAWN_MAX - 1000)
		return;
	add_rlx(&spawn_live, 1);
	join_storm(spawned_g, (void *)(uintptr_t)add_rlx(&spawned, 1));
}

static void spawner(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over()) {
		spawn_one();
		give_way(&seed);
	}
	group_done(&grp);
}

static void spawn_begin(void)
{
	many(8, spawner);
}

static void spawn_check(void)
{
	for (uint32_t i = 0; i < SPAWN_MAX; i++)
		EXPECT_EQ(ld_rlx(&spawn_runs[i]), i < ld_rlx(&spawned));
	test_say("  %lld Gs spawned", (long long)ld_rlx(&spawned));
}

/* ---- one M at a time ---- */
enum { RUNNERS = 48 };

static ATOMIC(uint32_t) in_use[RUNNERS];

static void runner(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	uint64_t seed = stream();

	while (!over()) {
		EXPECT(cas_acq(&in_use[me], 0, 1));
		burn_ns(random_below(&seed, 10) * US);
		EXPECT_EQ(xchg_rel(&in_use[me], 0), 1);
		switch (random_below(&seed, 8)) {
		case 0:
			sleep_ns(random_below(&seed, 200) * US);
			break;
		case 1:
			entersyscall();
			exitsyscall();
			break;
		default:
			give_way(&seed);
		}
	}
	group_done(&grp);
}

static void runner_begin(void)
{
	many(RUNNERS, runner);
}

/* ---- bursts on one P that the others must steal ---- */
static ATOMIC(uint32_t) burst_sent, burst_ran;

static void burst_g(void *arg)
{
	add_rlx(&burst_ran, 1);
	if ((uintptr_t)add_rlx(&streams, 1) % 4 == 0)
		goyield();
	group_done(arg);
}

static void burster(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over()) {
		struct group mine;
		uint32_t n = 1 + random_below(&seed, 400);
		st_rlx(&mine.left, n);
		add_rlx(&burst_sent, n);
		for (uint32_t i = 0; i < n; i++)
			go(burst_g, &mine);
		group_wait(&mine);
		/* The last of them may be in group_done still, which uses no more of it. */
	}
	group_done(&grp);
}

static void burst_begin(void)
{
	many(3, burster);
}

static void burst_check(void)
{
	EXPECT_EQ(ld_rlx(&burst_ran), ld_rlx(&burst_sent));
	test_say("  %lld Gs in bursts", (long long)ld_rlx(&burst_sent));
}

/* ---- parking with partners. One at least stays awake, to wake the others. ---- */
enum { PARKERS = 32 };

static struct parker {
	ATOMIC(uint32_t) parked;
	struct g *gp;
} parkers[PARKERS];

static ATOMIC(uint32_t) park_awake, park_alive, parks, park_wakes;

static bool parked_at_last(struct g *gp, void *arg)
{
	struct parker *p = arg;

	EXPECT(gp == p->gp);
	st_rel(&p->parked, 1);
	return true;
}

static bool park_after_all_not(struct g *gp, void *arg)
{
	EXPECT(gp == ((struct parker *)arg)->gp);
	return false;
}

static bool wake_parker(struct parker *p)
{
	if (!cas_acq(&p->parked, 1, 0))
		return false;
	add_sc(&park_awake, 1);
	add_rlx(&park_wakes, 1);
	goready(p->gp);
	return true;
}

/* One fewer awake, if somebody else is. */
static bool may_fall_asleep(void)
{
	for (;;) {
		uint32_t n = ld_sc(&park_awake);
		if (n < 2)
			return false;
		if (cas_sc(&park_awake, n, n - 1))
			return true;
	}
}

static void parker_g(void *arg)
{
	struct parker *me = &parkers[(uintptr_t)arg];
	uint64_t seed = stream();

	me->gp = getg();
	while (!over()) {
		for (uint32_t n = random_below(&seed, 4); n > 0; n--)
			wake_parker(&parkers[random_below(&seed, PARKERS)]);
		if (random_below(&seed, 8) == 0) {
			gopark(park_after_all_not, me, WAIT_PARK);
		} else if (may_fall_asleep()) {
			gopark(parked_at_last, me, WAIT_PARK);
			add_rlx(&parks, 1);
		} else {
			give_way(&seed);
		}
	}
	for (;;) {
		for (int i = 0; i < PARKERS; i++)
			wake_parker(&parkers[i]);
		if (ld_sc(&park_alive) == 1 || may_fall_asleep())
			break;
		gosched();
	}
	add_sc(&park_alive, (uint32_t)-1);
	group_done(&grp);
}

static void park_begin(void)
{
	park_awake = park_alive = PARKERS;
	many(PARKERS, parker_g);
}

static void park_check(void)
{
	EXPECT_EQ(ld_rlx(&parks), ld_rlx(&park_wakes));
	test_say("  %lld parks", (long long)ld_rlx(&parks));
}

/* ---- a mutex and condition variables over futexes, with timeouts ---- */
enum { BUFFER = 8, PRODUCERS = 4, CONSUMERS = 5, POISON = 0 };

static ATOMIC(uint32_t) mutex, not_full, not_empty;
static struct {
	uint32_t at, n;
	uint64_t item[BUFFER];
	uint64_t in, out, taken, timeouts; /* all under mutex, and plain */
} buffer;
static ATOMIC(uint32_t) producers;

static void mutex_lock(void)
{
	if (cas_acq(&mutex, 0, 1))
		return;
	while (xchg_acq(&mutex, 2) != 0)
		futex_wait(&mutex, 2, (uint32_t)FUTEX_ANY, NULL, 0);
}

static void mutex_unlock(uint64_t *seed)
{
	if (xchg_rel(&mutex, 0) == 2)
		futex_wake(&mutex, 1, (uint32_t)FUTEX_ANY,
			   random_below(seed, 4) == 0 ? FUTEX_HANDOFF : 0);
}

static void condition_wait(ATOMIC(uint32_t) *cond, uint64_t *seed)
{
	uint32_t seen = ld_sc(cond);
	struct deadline d = { 1, now_ns() + random_below(seed, 500) * US };
	bool timed = random_below(seed, 2);

	mutex_unlock(seed);
	int r = futex_wait(cond, seen, (uint32_t)FUTEX_ANY, timed ? &d : NULL, 0);
	/* Perhaps it was moved to the mutex, so there may be others like it. */
	while (xchg_acq(&mutex, 2) != 0)
		futex_wait(&mutex, 2, (uint32_t)FUTEX_ANY, NULL, 0);
	buffer.timeouts += r == -110;
}

/* All waiters of cond, one awake and the others to the mutex, which the caller holds. */
static void condition_broadcast(ATOMIC(uint32_t) *cond)
{
	add_sc(cond, 1);
	st_rlx(&mutex, 2);
	futex_requeue(cond, 1, &mutex, FUTEX_ANY, false, 0);
}

static void condition_signal(ATOMIC(uint32_t) *cond)
{
	add_sc(cond, 1);
	futex_wake(cond, 1, (uint32_t)FUTEX_ANY, 0);
}

static void buffer_put(uint64_t item, uint64_t *seed)
{
	mutex_lock();
	while (buffer.n == BUFFER)
		condition_wait(&not_full, seed);
	buffer.item[(buffer.at + buffer.n++) % BUFFER] = item;
	buffer.in += item;
	if (random_below(seed, 4) == 0)
		condition_broadcast(&not_empty);
	else
		condition_signal(&not_empty);
	mutex_unlock(seed);
}

static uint64_t buffer_get(uint64_t *seed)
{
	mutex_lock();
	while (buffer.n == 0)
		condition_wait(&not_empty, seed);
	uint64_t item = buffer.item[buffer.at];
	buffer.at = (buffer.at + 1) % BUFFER;
	buffer.n--;
	buffer.out += item;
	buffer.taken++;
	if (random_below(seed, 4) == 0)
		condition_broadcast(&not_full);
	else
		condition_signal(&not_full);
	mutex_unlock(seed);
	return item;
}

static void producer(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over())
		buffer_put(1 + random_below(&seed, 1000), &seed);
	if (add_sc(&producers, (uint32_t)-1) == 1)
		for (int i = 0; i < CONSUMERS; i++)
			buffer_put(POISON, &seed);
	group_done(&grp);
}

static void consumer(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (buffer_get(&seed) != POISON)
		;
	group_done(&grp);
}

static void futex_begin(void)
{
	producers = PRODUCERS;
	many(PRODUCERS, producer);
	many(CONSUMERS, consumer);
}

static void futex_check(void)
{
	EXPECT_EQ(buffer.in, buffer.out);
	EXPECT_EQ(buffer.n, 0);
	EXPECT_EQ(ld_sc(&mutex) == 0, true);
	test_say("  %lld items, %lld timeouts", (long long)buffer.taken,
		 (long long)buffer.timeouts);
}

/* ---- timed waits of each kind that others wake and interrupt ---- */
enum { NAPPERS = 24, INTERRUPTERS = 3 };

static struct g *nappers[NAPPERS];
static ATOMIC(uint32_t) nap_word, nap_interrupters;
static ATOMIC(uint64_t) naps, nap_broken, nap_sent;
static int nap_pipe[2];

static int nap(uint64_t *seed, const struct deadline *d)
{
	switch (random_below(seed, 4)) {
	case 0:
		return futex_wait(&nap_word, ld_sc(&nap_word), (uint32_t)FUTEX_ANY, d, 0);
	case 1:
		return netpoll_wait(nap_pipe[0], POLL_READ, netpoll_ticket(nap_pipe[0], POLL_READ),
				    d);
	default:
		return gosleep(d->clock, d->at);
	}
}

static void napper(void *arg)
{
	uint64_t seed = stream();

	st_rel(&nappers[(uintptr_t)arg], getg());
	while (!over() || ld_sc(&nap_interrupters) > 0) {
		struct deadline d = { 1, now_ns() + random_below(&seed, 1500) * US };
		int r = nap(&seed, &d);
		EXPECT(r == 0 || r == -RAW_EINTR || r == -RAW_EAGAIN || r == -110);
		EXPECT(r != -110 || now_ns() >= d.at);
		add_rlx(&naps, 1);
		if (r == -RAW_EINTR)
			add_rlx(&nap_broken, 1);
	}
	group_done(&grp);
}

static void interrupter(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over()) {
		struct g *gp = ld_acq(&nappers[random_below(&seed, NAPPERS)]);
		if (random_below(&seed, 4) == 0) {
			add_sc(&nap_word, 1);
			futex_wake(&nap_word, (int)random_below(&seed, 4), (uint32_t)FUTEX_ANY, 0);
		} else if (gp && gointerrupt(gp)) {
			add_rlx(&nap_sent, 1);
		}
		if (random_below(&seed, 4) == 0)
			give_way(&seed);
	}
	add_sc(&nap_interrupters, (uint32_t)-1);
	group_done(&grp);
}

static void nap_begin(void)
{
	raw_pipe(nap_pipe, RAW_NONBLOCK);
	nap_interrupters = INTERRUPTERS;
	many(NAPPERS, napper);
	many(INTERRUPTERS, interrupter);
}

static void nap_check(void)
{
	EXPECT_EQ(ld_rlx(&nap_broken), ld_rlx(&nap_sent));
	test_say("  %lld timed waits, %lld interrupted", (long long)ld_rlx(&naps),
		 (long long)ld_rlx(&nap_sent));
}

/* ---- pipes and socket pairs, opened anew all the time ---- */
enum { CHANNELS = 5, ENDS = 4 };

struct channel {
	int fd[2];
	struct group group;
	ATOMIC(uint32_t) writers;
	ATOMIC(uint64_t) sent, got, sum_sent, sum_got;
};

static struct channel channels[CHANNELS];
static ATOMIC(uint64_t) channel_bytes, channel_rounds;

static void channel_reader(void *arg)
{
	struct channel *c = arg;
	uint64_t seed = stream();

	for (;;) {
		unsigned char buf[64];
		struct deadline d = { 1, now_ns() + random_below(&seed, 300) * US };
		uint32_t ticket = netpoll_ticket(c->fd[0], POLL_READ);
		long n = raw_read(c->fd[0], buf, 1 + random_below(&seed, sizeof(buf)));
		if (n == 0)
			break;
		if (n == -RAW_EAGAIN) {
			int r = netpoll_wait(c->fd[0], POLL_READ, ticket,
					     random_below(&seed, 2) ? &d : NULL);
			EXPECT(r == 0 || r == -110);
			continue;
		}
		EXPECT(n > 0);
		add_rlx(&c->got, (uint64_t)n);
		for (long i = 0; i < n; i++)
			add_rlx(&c->sum_got, buf[i]);
	}
	group_done(&c->group);
}

static void channel_writer(void *arg)
{
	struct channel *c = arg;
	uint64_t seed = stream();

	for (uint32_t left = random_below(&seed, 3000); left > 0;) {
		unsigned char buf[200], value = (unsigned char)random_below(&seed, 256);
		uint32_t want = 1 + random_below(&seed, left < sizeof(buf) ? left : sizeof(buf));
		for (uint32_t i = 0; i < want; i++)
			buf[i] = value;
		uint32_t ticket = netpoll_ticket(c->fd[1], POLL_WRITE);
		long n = raw_write(c->fd[1], buf, want);
		if (n == -RAW_EAGAIN) {
			EXPECT_EQ(netpoll_wait(c->fd[1], POLL_WRITE, ticket, NULL), 0);
			continue;
		}
		EXPECT(n > 0);
		left -= (uint32_t)n;
		add_rlx(&c->sent, (uint64_t)n);
		add_rlx(&c->sum_sent, (uint64_t)n * value);
		if (random_below(&seed, 8) == 0)
			give_way(&seed);
	}
	if (add_sc(&c->writers, (uint32_t)-1) == 1) {
		/* With and without a word to the core. */
		if (random_below(&seed, 2))
			netpoll_forget(c->fd[1], -1);
		raw_close(c->fd[1]);
	}
	group_done(&c->group);
}

static void channel_g(void *arg)
{
	struct channel *c = &channels[(uintptr_t)arg];
	uint64_t seed = stream();

	while (!over()) {
		uint32_t readers = 1 + random_below(&seed, ENDS),
			 writers = 1 + random_below(&seed, ENDS);
		/* AF_UNIX, SOCK_STREAM */
		if (random_below(&seed, 2))
			raw_pipe(c->fd, RAW_NONBLOCK);
		else
			EXPECT_EQ(
				arch_syscall4(__NR_socketpair, 1, 1 | RAW_NONBLOCK, 0, (long)c->fd),
				0);
		st_rlx(&c->group.left, readers + writers);
		st_rlx(&c->writers, writers);
		for (uint32_t i = 0; i < readers; i++)
			go(channel_reader, c);
		for (uint32_t i = 0; i < writers; i++)
			go(channel_writer, c);
		group_wait(&c->group);
		if (random_below(&seed, 2))
			netpoll_forget(c->fd[0], -1);
		raw_close(c->fd[0]);
		EXPECT_EQ(ld_rlx(&c->sent), ld_rlx(&c->got));
		EXPECT_EQ(ld_rlx(&c->sum_sent), ld_rlx(&c->sum_got));
		add_rlx(&channel_rounds, 1);
	}
	add_rlx(&channel_bytes, ld_rlx(&c->got));
	group_done(&grp);
}

static void channel_begin(void)
{
	many(CHANNELS, channel_g);
}

static void channel_check(void)
{
	test_say("  %lld bytes through %lld pairs", (long long)ld_rlx(&channel_bytes),
		 (long long)ld_rlx(&channel_rounds));
}

/* ---- calls that are announced, and calls that are not ---- */
enum { CALLERS = 24, PIPES = 3 };

static ATOMIC(uint64_t) calls;

static void announced(void *arg)
{
	uint64_t seed = stream();
	struct g *me = getg();

	(void)arg;
	while (!over()) {
		uint32_t us = random_below(&seed, 2) ? 0 : random_below(&seed, 2000);
		entersyscall();
		if (us)
			raw_sleep(us * US);
		exitsyscall();
		EXPECT(getg() == me);
		add_rlx(&calls, 1);
		if (random_below(&seed, 4) == 0)
			give_way(&seed);
	}
	group_done(&grp);
}

static void announced_begin(void)
{
	many(CALLERS, announced);
}

static void call_check(void)
{
	struct stats sum;
	stats_sum(&sum);
	test_say("  %lld calls; Ps retaken: %lld announced, %lld not", (long long)ld_rlx(&calls),
		 (long long)sum.retakecall, (long long)sum.retakeblock);
}

static int raw_pipes[PIPES][2];

static void unannounced(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over()) {
		raw_sleep(random_below(&seed, 2000) * US);
		add_rlx(&calls, 1);
		burn_ns(random_below(&seed, 50) * US);
		if (random_below(&seed, 4) == 0)
			give_way(&seed);
	}
	group_done(&grp);
}

/* Blocked in read and write, each until the other has come. */
static void raw_writer(void *arg)
{
	int fd = raw_pipes[(uintptr_t)arg][1];
	uint64_t seed = stream();

	for (uint32_t i = 0; !over(); i++) {
		EXPECT_EQ(raw_write(fd, &i, sizeof(i)), sizeof(i));
		if (random_below(&seed, 64) == 0)
			sleep_ns(random_below(&seed, 3000) * US);
	}
	raw_close(fd);
	group_done(&grp);
}

static void raw_reader(void *arg)
{
	int fd = raw_pipes[(uintptr_t)arg][0];
	uint32_t i, got;
	long n;

	for (i = 0; (n = raw_read(fd, &got, sizeof(got))) != 0; i++) {
		EXPECT_EQ(n, sizeof(got));
		EXPECT_EQ(got, i);
	}
	raw_close(fd);
	group_done(&grp);
}

static void unannounced_begin(void)
{
	for (int i = 0; i < PIPES; i++)
		raw_pipe(raw_pipes[i], 0);
	many(8, unannounced);
	many(PIPES, raw_writer);
	many(PIPES, raw_reader);
}

/* ---- Gs that are wired to their kernel thread ---- */
static void wired(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over()) {
		lockosthread();
		int tid = kernel_tid();
		for (uint32_t n = random_below(&seed, 12); n > 0; n--) {
			switch (random_below(&seed, 5)) {
			case 0:
				sleep_ns(random_below(&seed, 300) * US);
				break;
			case 1:
				entersyscall();
				raw_sleep(random_below(&seed, 500) * US);
				exitsyscall();
				break;
			case 2:
				raw_sleep(random_below(&seed, 500) * US);
				break;
			default:
				give_way(&seed);
			}
			EXPECT_EQ(kernel_tid(), tid);
		}
		unlockosthread();
		give_way(&seed);
	}
	group_done(&grp);
}

static void wired_begin(void)
{
	many(6, wired);
}

/* ---- Gs that never give way ---- */
static ATOMIC(uint64_t) holds;

static void holder(void *arg)
{
	struct registers want, have;
	uint64_t seed = stream();

	(void)arg;
	while (!over()) {
		enum registers_level level = (enum registers_level)random_below(
			&seed, (uint32_t)registers_best() + 1);
		registers_fill(&want, seed, level);
		have = (struct registers){ .pad = 0 };
		registers_hold(&want, &have, random_below(&seed, 3000000), level);
		EXPECT_EQ(registers_differ(&want, &have), -1);
		add_rlx(&holds, 1);
	}
	group_done(&grp);
}

/* Their slices end early for these. */
static void ticker(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over())
		sleep_ns(random_below(&seed, 1000) * US);
	group_done(&grp);
}

static void hold_begin(void)
{
	if (!can_preempt())
		return;
	many(nprocs < 8 ? nprocs + 3 : 6, holder);
	many(4, ticker);
}

static void hold_check(void)
{
	struct stats sum;
	stats_sum(&sum);
	test_say("  %lld loops, %lld preemptions", (long long)ld_rlx(&holds),
		 (long long)sum.preempts);
}

/* ---- GOMAXPROCS ---- */
static ATOMIC(uint64_t) resizes;

static void resizer(void *arg)
{
	uint64_t seed = stream();

	(void)arg;
	while (!over()) {
		EXPECT_EQ(core_setprocs(1 + (int)random_below(&seed, 64)), 0);
		add_rlx(&resizes, 1);
		sleep_ns(random_below(&seed, 4000) * US);
	}
	group_done(&grp);
}

static void resize_begin(void)
{
	many(2, resizer);
}

static void resize_check(void)
{
	EXPECT_EQ(core_setprocs(nprocs), 0);
	test_say("  %lld resizes", (long long)ld_rlx(&resizes));
}

/* ---- all of them ---- */
struct storm {
	void (*begin)(void);
	void (*check)(void);
};

static const struct storm spawns = { spawn_begin, spawn_check }, runners = { runner_begin, NULL },
			  bursts = { burst_begin, burst_check },
			  parking = { park_begin, park_check },
			  futexes = { futex_begin, futex_check }, timed = { nap_begin, nap_check },
			  network = { channel_begin, channel_check },
			  syscalls = { announced_begin, call_check },
			  blocks = { unannounced_begin, call_check }, wires = { wired_begin, NULL },
			  loops = { hold_begin, hold_check },
			  resize = { resize_begin, resize_check };

#endif
