/* What the core's own operations cost: `make bench-core`. Each figure is the median of
 * several rounds, each in a process of its own, in ns an operation. That the hot paths make
 * no system call is tests/core/hotpath_test.c's to show.
 *
 * $HEDDLE_BENCH runs only those whose names contain it; $HEDDLE_BENCH_STATS prints the
 * counters of each round; $HEDDLE_BENCH_GS is the number of parked Gs (a million).
 * $BENCH_SHAPE runs the first whose name contains it, once, for shape.c to count its instructions.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../core/host.h"
#include "../core/raw.h"
#include "gmp.h"
#include "netpoll.h"
#include "os.h"
#include "sched.h"
#include "shape.h"
#include "syscall.h"

enum { ROUNDS = 7 };

/* The result of a round, from the G that measured it to main. */
static double result;

static void put_result(uint64_t t0, uint64_t n)
{
	result = (double)(now_ns() - t0) / (double)n;
}

/* Whether shape.c counts our instructions. */
static bool shaped;

/* How many operations make a measurement, of which there are usually so many. */
static int times(int usually)
{
	return shaped ? BENCH_WARM + BENCH_OPS : usually;
}

/* Has op done so often by the G `me`; of several the one that is 0 marks what is counted. */
static void repeat(void (*op)(uintptr_t me, int n), uintptr_t me, int n)
{
	if (shaped && me == 0) {
		op(me, n - BENCH_OPS);
		bench_mark();
		op(me, BENCH_OPS);
		bench_mark();
	} else {
		op(me, n);
	}
}

/* Two Gs that do nothing but give way: every call is a switch. */
enum { YIELDS = 1000000 };
static struct group grp;

static void yields(uintptr_t me, int n)
{
	(void)me;
	for (int i = 0; i < n; i++)
		gosched();
}

static void yielder(void *arg)
{
	repeat(yields, (uintptr_t)arg, times(YIELDS));
	group_done(&grp);
}

static void bench_gosched(void)
{
	uint64_t t0 = now_ns();
	grp.left = 2;
	go(yielder, (void *)0);
	go(yielder, (void *)1);
	group_wait(&grp);
	put_result(t0, 2 * YIELDS);
}

/* Batches of Gs that end at once, all from the free list. */
enum { SPAWNS = 1000000, BATCH = 32 };

static void nothing(void *arg)
{
	(void)arg;
	group_done(&grp);
}

static void bench_spawn(void)
{
	uint64_t t0 = now_ns();
	for (int i = 0; i < SPAWNS / BATCH; i++) {
		grp.left = BATCH;
		for (int j = 0; j < BATCH; j++)
			go(nothing, NULL);
		group_wait(&grp);
	}
	put_result(t0, SPAWNS);
}

/* One at a time: spawn, wait for its end. */
static void spawns_and_joins(uintptr_t me, int n)
{
	(void)me;
	for (int i = 0; i < n; i++) {
		grp.left = 1;
		go(nothing, NULL);
		group_wait(&grp);
	}
}

static void bench_spawn_join(void)
{
	uint64_t t0 = now_ns();
	repeat(spawns_and_joins, 0, times(SPAWNS));
	put_result(t0, SPAWNS);
}

/* Two Gs that park and ready each other: an operation is one hand-off. */
enum { HANDOFFS = 1000000 };
static struct g *pair[2];
static ATOMIC(bool) pair_stop;

/* With one P, and pinned from the ready to the park, the other is parked whenever this one
 * runs: what a primitive built on the core does under its lock. */
static void handoffs(uintptr_t me, int n)
{
	for (int i = 0; i < n; i++) {
		struct g *gp = getg();
		struct m *mp = pin(gp);
		ready(mp, pair[1 - me]);
		park(mp, gp, NULL, NULL, WAIT_PARK);
		unpin(gp);
	}
}

static void ping(void *arg)
{
	uintptr_t me = (uintptr_t)arg;
	repeat(handoffs, me, times(HANDOFFS));
	group_done(&grp);
	if (!xchg_sc(&pair_stop, true))
		goready(pair[1 - me]);
}

static void pong(void *arg)
{
	gopark(NULL, NULL, WAIT_PARK);
	ping(arg);
}

static void bench_park(void)
{
	uint64_t t0;
	pair_stop = false;
	grp.left = 2;
	pair[0] = go(pong, (void *)0);
	pair[1] = go(pong, (void *)1);
	while (ld_acq(&pair[0]->status) != GWAITING || ld_acq(&pair[1]->status) != GWAITING)
		gosched();
	t0 = now_ns();
	goready(pair[0]);
	group_wait(&grp);
	put_result(t0, 2 * HANDOFFS);
}

/* A semaphore each way, over the futex: an operation is half a round trip. */
static ATOMIC(uint32_t) sem[2];

static void sem_down(ATOMIC(uint32_t) *s)
{
	for (;;) {
		uint32_t v = ld_acq(s);
		if (v > 0 && cas_acq(s, v, v - 1))
			return;
		if (v == 0)
			futex_wait(s, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	}
}

static void sem_up(ATOMIC(uint32_t) *s)
{
	add_sc(s, 1);
	futex_wake(s, 1, (uint32_t)FUTEX_ANY, FUTEX_FENCED);
}

static void sem_turns(uintptr_t me, int n)
{
	for (int i = 0; i < n; i++) {
		sem_down(&sem[me]);
		sem_up(&sem[1 - me]);
	}
}

static void sem_pinger(void *arg)
{
	repeat(sem_turns, (uintptr_t)arg, times(HANDOFFS));
	group_done(&grp);
}

static void bench_futex_pingpong(void)
{
	uint64_t t0 = now_ns();
	grp.left = 2;
	sem[0] = 1;
	sem[1] = 0;
	go(sem_pinger, (void *)0);
	go(sem_pinger, (void *)1);
	group_wait(&grp);
	put_result(t0, 2 * HANDOFFS);
}

/* The lock that a user of the futex would write (0 free, 1 held, 2 waited for). */
static ATOMIC(uint32_t) lockword;
static uint64_t locked_count;

static void word_lock(void)
{
	uint32_t c;
	if (cas_acq(&lockword, 0, 1))
		return;
	for (int i = 0; core_canspin(i); i++) {
		core_dospin();
		if (ld_rlx(&lockword) == 0 && cas_acq(&lockword, 0, 1))
			return;
	}
	while ((c = xchg_acq(&lockword, 2)) != 0)
		futex_wait(&lockword, 2, (uint32_t)FUTEX_ANY, NULL, 0);
}

static void word_unlock(void)
{
	if (xchg_rel(&lockword, 0) == 2)
		futex_wake(&lockword, 1, (uint32_t)FUTEX_ANY, 0);
}

enum { LOCKS = 4000000, CONTENDERS = 64 };

static void locks(uintptr_t me, int n)
{
	(void)me;
	for (int i = 0; i < n; i++) {
		word_lock();
		locked_count++;
		word_unlock();
	}
}

static void bench_lock_free(void)
{
	uint64_t t0 = now_ns();
	repeat(locks, 0, times(LOCKS));
	put_result(t0, LOCKS);
}

static void contender(void *arg)
{
	locks((uintptr_t)arg, LOCKS / CONTENDERS);
	group_done(&grp);
}

static void bench_lock_contended(void)
{
	uint64_t t0 = now_ns();
	grp.left = CONTENDERS;
	for (int i = 0; i < CONTENDERS; i++)
		go(contender, NULL);
	group_wait(&grp);
	put_result(t0, LOCKS);
}

enum { CALLS = 1000000 };

static void bench_syscall_bare(void)
{
	uint64_t t0 = now_ns();
	for (int i = 0; i < CALLS; i++)
		arch_syscall3(SYS_getppid, 0, 0, 0);
	put_result(t0, CALLS);
}

static void pairs(uintptr_t me, int n)
{
	(void)me;
	for (int i = 0; i < n; i++) {
		entersyscall();
		arch_syscall3(SYS_getppid, 0, 0, 0);
		exitsyscall();
	}
}

static void bench_syscall_pair(void)
{
	uint64_t t0 = now_ns();
	repeat(pairs, 0, times(CALLS));
	put_result(t0, CALLS);
}

/* A byte to and fro over two pipes: the reader parks in the poller each time. */
enum { BYTES = 100000 };
static int pipes[2][2];

static void read_byte(int fd)
{
	char c;
	for (;;) {
		uint32_t ticket = netpoll_ticket(fd, POLL_READ);
		if (arch_syscall3(SYS_read, fd, (long)&c, 1) == 1)
			return;
		EXPECT_EQ(netpoll_wait(fd, POLL_READ, ticket, NULL), 0);
	}
}

static void pipe_turns(uintptr_t me, int n)
{
	for (int i = 0; i < n; i++) {
		if (me == 0)
			arch_syscall3(SYS_write, pipes[0][1], (long)"x", 1);
		read_byte(pipes[1 - me][0]);
		if (me == 1)
			arch_syscall3(SYS_write, pipes[1][1], (long)"x", 1);
	}
}

static void pipe_pinger(void *arg)
{
	repeat(pipe_turns, (uintptr_t)arg, times(BYTES));
	group_done(&grp);
}

static void bench_netpoll(void)
{
	uint64_t t0;
	for (int i = 0; i < 2; i++)
		EXPECT_EQ(pipe2(pipes[i], O_NONBLOCK | O_CLOEXEC), 0);
	t0 = now_ns();
	grp.left = 2;
	go(pipe_pinger, (void *)0);
	go(pipe_pinger, (void *)1);
	group_wait(&grp);
	put_result(t0, BYTES);
	for (int i = 0; i < 2; i++) {
		netpoll_forget(pipes[i][0], -1);
		close(pipes[i][0]);
		close(pipes[i][1]);
	}
}

/* From the put of a G on a busy P to its first instruction on the other. */
enum { STEALS = 2000 };
static ATOMIC(uint64_t) put_at, took;

static void stolen(void *arg)
{
	(void)arg;
	add_sc(&took, now_ns() - ld_sc(&put_at));
	group_done(&grp);
}

static void bench_steal(void)
{
	took = 0;
	for (int i = 0; i < STEALS; i++) {
		uint64_t until;
		grp.left = 1;
		st_sc(&put_at, now_ns());
		go(stolen, NULL);
		until = now_ns() + 200000;
		while (ld_sc(&grp.left) != 0 && now_ns() < until)
			arch_relax();
		group_wait(&grp);
	}
	result = (double)ld_sc(&took) / STEALS;
}

/* Bytes of a parked G, its stack's first page and the kernel's tables included. */
static ATOMIC(uint32_t) gate;

static void waits_at_gate(void *arg)
{
	(void)arg;
	group_done(&grp);
	while (ld_sc(&gate) == 0)
		futex_wait(&gate, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	group_done(&grp);
}

static int64_t status_kib(const char *key)
{
	static char buf[8192];
	int64_t n = 0;
	if (os_readfile("/proc/self/status", buf, sizeof(buf)) <= 0)
		return 0;
	for (char *s = strstr(buf, key); s && *s && *s != '\n'; s++)
		if (*s >= '0' && *s <= '9')
			n = n * 10 + (*s - '0');
	return n;
}

static void bench_parked(void)
{
	const char *env = getenv("HEDDLE_BENCH_GS");
	uint32_t n = env ? (uint32_t)atoi(env) : 1000000;
	int64_t before = status_kib("VmRSS:") + status_kib("VmPTE:");

	grp.left = n;
	gate = 0;
	for (uint32_t i = 0; i < n; i++)
		go(waits_at_gate, NULL);
	group_wait(&grp);
	result = (double)(status_kib("VmRSS:") + status_kib("VmPTE:") - before) * 1024 / n;
	grp.left = n;
	st_sc(&gate, 1);
	futex_wake(&gate, FUTEX_ANY, (uint32_t)FUTEX_ANY, 0);
	group_wait(&grp);
}

/* Beside a G that computes without pause, on the only P: how late one is that sleeps for a ms, or
 * waits for a pipe into which a kernel thread of its own writes every few ms; in us. And what that
 * costs the one who computes: his work for each second of cpu that the process used, as a part of
 * what it is while he is alone. */
enum { WAKES = 250 };
static uint64_t late[WAKES];
static ATOMIC(uint64_t) due_at, hog_work;
static ATOMIC(uint32_t) hog_stop, wakes;

static void works(void *arg)
{
	(void)arg;
	while (!ld_rlx(&hog_stop)) {
		for (int i = 0; i < 1000; i++)
			__asm__ volatile("");
		bump(&hog_work);
	}
	group_done(&grp);
}

static void sleeps(void *arg)
{
	(void)arg;
	for (int i = 0; i < WAKES; i++) {
		uint64_t due = now_ns() + 1 * MS;
		sleep_ns(1 * MS);
		late[i] = now_ns() - due;
		raise_by(&wakes, 1);
	}
	group_done(&grp);
}

static void reads(void *arg)
{
	(void)arg;
	for (int i = 0; i < WAKES; i++) {
		read_byte(pipes[0][0]);
		late[i] = now_ns() - ld_sc(&due_at);
		raise_by(&wakes, 1);
	}
	group_done(&grp);
}

static void *writes(void *arg)
{
	uint64_t seed = test_seed();

	(void)arg;
	for (uint32_t i = 0; i < WAKES; i++) {
		usleep(2000 + random_below(&seed, 3000));
		st_sc(&due_at, now_ns());
		EXPECT_EQ(raw_write(pipes[0][1], "x", 1), 1);
		wait_raised(&wakes, i + 1);
	}
	return NULL;
}

/* On one P; the caller is a third who waits. Ends when the waiter does. */
static void beside_hog(void (*waiter)(void *))
{
	grp.left = 2;
	go(works, NULL);
	go(waiter, NULL);
	wait_raised(&wakes, WAKES);
	st_sc(&hog_stop, 1);
	group_wait(&grp);
}

static void begin_pipe(void)
{
	raw_pipe(pipes[0], RAW_NONBLOCK);
	watcher(writes, NULL);
}

static void put_late(int percent)
{
	sort_ns(late, WAKES);
	result = (double)late[WAKES * percent / 100] / US;
}

static void bench_sleeper(void)
{
	beside_hog(sleeps);
	put_late(50);
}

static void bench_sleeper_p99(void)
{
	beside_hog(sleeps);
	put_late(99);
}

static void bench_reader(void)
{
	begin_pipe();
	beside_hog(reads);
	put_late(50);
}

static void bench_reader_p99(void)
{
	begin_pipe();
	beside_hog(reads);
	put_late(99);
}

/* The hog's work for a ns of cpu, while fn, if there is one, runs. */
static double work_beside(void (*fn)(void))
{
	double cpu = (double)cpu_ns(), work = (double)ld_rlx(&hog_work);

	if (fn)
		fn();
	else
		sleep_ns(500 * (uint64_t)MS);
	return ((double)ld_rlx(&hog_work) - work) / ((double)cpu_ns() - cpu);
}

static void wakes_pass(void)
{
	wait_raised(&wakes, WAKES);
}

static void bench_hog_beside_reader(void)
{
	double alone;

	grp.left = 2;
	go(works, NULL);
	alone = work_beside(NULL);
	begin_pipe();
	go(reads, NULL);
	result = 100 * work_beside(wakes_pass) / alone;
	st_sc(&hog_stop, 1);
	group_wait(&grp);
}

struct bench {
	const char *name;
	void (*fn)(void);
	int procs;
	int rounds;
	const char *unit;
	double target; /* 0: none */
};

static const struct bench benches[] = {
	{ "gosched", bench_gosched, 1, ROUNDS, "ns a switch", 40 },
	{ "spawn+exit", bench_spawn, 1, ROUNDS, "ns", 110 },
	{ "spawn+join", bench_spawn_join, 1, ROUNDS, "ns", 0 },
	{ "park/ready", bench_park, 1, ROUNDS, "ns a hand-off", 80 },
	{ "futex ping-pong", bench_futex_pingpong, 1, ROUNDS, "ns a hand-off", 0 },
	{ "futex lock, free", bench_lock_free, 1, ROUNDS, "ns", 0 },
	{ "futex lock, 64 Gs", bench_lock_contended, 1, ROUNDS, "ns", 0 },
	{ "bare call", bench_syscall_bare, 1, ROUNDS, "ns", 0 },
	{ "entersyscall pair", bench_syscall_pair, 1, ROUNDS, "ns with the call", 0 },
	{ "pipe round trip", bench_netpoll, 1, ROUNDS, "ns", 0 },
	{ "gosched, 2 Ps", bench_gosched, 2, ROUNDS, "ns a switch", 0 },
	{ "spawn+exit, 2 Ps", bench_spawn, 2, ROUNDS, "ns", 0 },
	{ "futex ping-pong, 2 Ps", bench_futex_pingpong, 2, ROUNDS, "ns a hand-off", 0 },
	{ "futex lock, 64 Gs, 2 Ps", bench_lock_contended, 2, ROUNDS, "ns", 0 },
	{ "pipe round trip, 2 Ps", bench_netpoll, 2, ROUNDS, "ns", 0 },
	{ "steal latency, 2 Ps", bench_steal, 2, ROUNDS, "ns", 0 },
	{ "sleeper beside a hog", bench_sleeper, 1, ROUNDS, "us late, median", 1500 },
	{ "sleeper beside a hog", bench_sleeper_p99, 1, ROUNDS, "us late, p99", 5000 },
	{ "reader beside a hog", bench_reader, 1, ROUNDS, "us late, median", 1500 },
	{ "reader beside a hog", bench_reader_p99, 1, ROUNDS, "us late, p99", 5000 },
	{ "hog beside a reader", bench_hog_beside_reader, 1, ROUNDS, "% of its work alone", 0 },
	{ "parked G", bench_parked, 1, 1, "bytes", 0 },
};

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

static void say_stats(void)
{
	struct stats s;
	stats_sum(&s);
#define X(name, text) test_say("  %lld %s", (long long)s.name, text);
	STATS(X)
#undef X
}

/* Each round in a process of its own. Returns false if it did not end well. */
static bool run_round(const struct bench *b, double *out)
{
	int fd[2], status;
	bool ok;

	EXPECT_EQ(pipe(fd), 0);
	pid_t pid = fork();
	if (pid == 0) {
		start(b->procs);
		b->fn();
		if (getenv("HEDDLE_BENCH_STATS"))
			say_stats();
		_exit(write(fd[1], &result, sizeof(result)) != sizeof(result));
	}
	close(fd[1]);
	ok = read(fd[0], out, sizeof(*out)) == sizeof(*out);
	close(fd[0]);
	waitpid(pid, &status, 0);
	return ok && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Before main, and in this process: it is the one that is traced. */
__attribute__((constructor)) static void be_counted(void)
{
	const char *name = getenv("BENCH_SHAPE");

	if (!name)
		return;
	for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
		if (!strstr(benches[i].name, name))
			continue;
		shaped = true;
		start(1);
		benches[i].fn();
		_exit(0);
	}
	_exit(2);
}

TEST_IN(600, bench)
{
	const char *only = getenv("HEDDLE_BENCH");

	printf("%-26s %10s %10s %10s  %s\n", "", "median", "min", "max", "");
	for (size_t i = 0; i < sizeof(benches) / sizeof(benches[0]); i++) {
		const struct bench *b = &benches[i];
		double v[ROUNDS];
		if (only && !strstr(b->name, only))
			continue;
		for (int r = 0; r < b->rounds; r++)
			EXPECT(run_round(b, &v[r]));
		qsort(v, (size_t)b->rounds, sizeof(v[0]), by_value);
		printf("%-26s %10.1f %10.1f %10.1f  %s", b->name, v[b->rounds / 2], v[0],
		       v[b->rounds - 1], b->unit);
		if (b->target > 0)
			printf(" (target %.0f)%s", b->target,
			       v[b->rounds / 2] > b->target ? " MISSED" : "");
		printf("\n");
	}
}
