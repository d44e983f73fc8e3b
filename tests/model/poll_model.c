/* core/pollwait.c and core/netpoll.c, every interleaving: waits for descriptors beside events,
 * deadlines, signals and those who close them. The kernel's part, edge-triggered as epoll is, is
 * the backend below. Read stage.h first. */
#include "pollwait.h"

#include <string.h>

#include "keep.h"
#include "sleep.h"
#include "stage.h"

enum { EINTR_ = 4, ENOMEM_ = 12, ETIMEDOUT_ = 110, ESTALE_ = 116, CLOCK_MONO = 1 };
enum { FDS = 2, READERS = 2, NEVER = 99, CHUNK_BYTES = 1024 * sizeof(struct polldesc) };

static const struct deadline soon = { CLOCK_MONO, 5000 };

/* ---- the kernel ---- */
static struct {
	ATOMIC(uint32_t) data; /* there is something to be read */
	ATOMIC(uint32_t) watched; /* with this: */
	ATOMIC(uint64_t) as;
	ATOMIC(uint32_t) pending; /* an event to be reported */
	ATOMIC(uint32_t) closed;
} kernel[FDS];

static int add(int fd, uint8_t dirs, bool known, uint64_t data)
{
	(void)known;
	st_rlx(&kernel[fd].as, data);
	st_sc(&kernel[fd].watched, dirs != 0);
	if (dirs && ld_sc(&kernel[fd].data))
		st_sc(&kernel[fd].pending, 1);
	return 0;
}

static int sure(int fd, uint8_t dirs, uint64_t data)
{
	return ld_sc(&kernel[fd].watched) ? 0 : add(fd, dirs, false, data);
}

static void forget(int fd)
{
	st_sc(&kernel[fd].watched, 0);
}

static int wait(struct pollevent *ev, int n, int64_t ns)
{
	int k = 0;

	(void)n;
	(void)ns;
	for (int fd = 0; fd < FDS; fd++) {
		if (!xchg_sc(&kernel[fd].pending, 0))
			continue;
		ev[k].data = ld_rlx(&kernel[fd].as);
		ev[k].dir[POLL_READ] = true;
		ev[k++].dir[POLL_WRITE] = false;
	}
	return k;
}

static bool is_ready(const struct pollwait *w, int n)
{
	for (int i = 0; i < n; i++)
		if (w[i].pd && !w[i].turns && ld_sc(&kernel[w[i].fd].data))
			return true;
	return false;
}

static int init(void)
{
	return 0;
}

const struct pollbackend poll_epoll = {
	.init = init,
	.add = add,
	.sure = sure,
	.ready = is_ready,
	.forget = forget,
	.wait = wait,
};

/* Something comes. */
static void arrive(void *arg)
{
	uintptr_t fd = (uintptr_t)arg;

	st_sc(&kernel[fd].data, 1);
	if (ld_sc(&kernel[fd].watched))
		st_sc(&kernel[fd].pending, 1);
}

/* ---- keep.h, runq.c, sysmon.c ---- */
void *keep(size_t size)
{
	static char chunk[CHUNK_BYTES] __attribute__((aligned(CACHE_LINE)));

	EXPECT(size == sizeof(chunk));
	return chunk;
}

bool runqempty(struct p *pp)
{
	(void)pp;
	return true;
}

void sysmon_polls(void)
{
}

/* ---- what threads do ---- */
static int result[READERS];
static int count_of;
static int reading; /* how many are to come back yet */
static ATOMIC(int) back;

/* known: somebody waited before, so no call of the kernel is needed. */
static void begin(int readers, bool known)
{
	stage_begin();
	memset(kernel, 0, sizeof(kernel));
	count_of = NEVER;
	reading = readers;
	back = 0;
	for (int i = 0; i < READERS; i++)
		result[i] = NEVER;
	EXPECT_EQ(poll_bring_up(), 0);
	for (int fd = 0; fd < FDS; fd++) {
		struct polldesc *pd = descof(fd, true);
		pd->registered = known ? 1 << POLL_READ : 0;
		kernel[fd].watched = known;
		kernel[fd].as = (uint64_t)pd->generation << 32 | (uint32_t)fd;
		model_name(pd, sizeof(*pd), "fd%d", fd);
		model_name(&pd->events, sizeof(pd->events), "fd%d.events", fd);
		model_name(&pd->first, sizeof(pd->first), "fd%d.first", fd);
		model_name(&kernel[fd], sizeof(kernel[fd]), "the kernel's fd%d", fd);
		model_name(&kernel[fd].data, 4, "fd%d's data", fd);
	}
}

static void nobody_waits(void)
{
	EXPECT(!netpoll_anywaiters());
	for (int fd = 0; fd < FDS; fd++) {
		EXPECT(descof(fd, false)->first == NULL);
		EXPECT_EQ(descof(fd, false)->lock.key, 0);
	}
	for (int i = 0; i < ACTORS; i++)
		EXPECT(actors[i].g.timer.heap == NULL);
}

__attribute__((noinline)) static int wait_for(int fd, uint32_t ticket, const struct deadline *d)
{
	int r;

	model_frame();
	r = netpoll_wait(fd, POLL_READ, ticket, d);
	model_frame_over();
	EXPECT(ld_rlx(&getg()->timer.heap) == NULL);
	return r;
}

/* As a blocking read: ticket, try, wait. 0: there was something to read; 1: it is closed. */
static int read_one(int fd, const struct deadline *d)
{
	for (;;) {
		uint32_t ticket = netpoll_ticket(fd, POLL_READ);
		int r;
		if (ld_sc(&kernel[fd].data))
			return 0;
		if (ld_sc(&kernel[fd].closed))
			return 1;
		r = wait_for(fd, ticket, d);
		if (r != 0)
			return r;
	}
}

static void reader(void *arg)
{
	*(int *)arg = read_one(0, NULL);
	add_sc(&back, 1);
}

static void timed_reader(void *arg)
{
	*(int *)arg = read_one(0, &soon);
	add_sc(&back, 1);
}

__attribute__((noinline)) static int wait_any(const struct deadline *d)
{
	struct pollwait w[FDS] = { { .fd = 0, .dirs = 1 << POLL_READ },
				   { .fd = 1, .dirs = 1 << POLL_READ } };
	int r;

	netpoll_tickets(w, FDS);
	if (ld_sc(&kernel[0].data) || ld_sc(&kernel[1].data))
		return 1;
	r = netpoll_waitany(w, FDS, d);
	return r;
}

static int wait_any_in_frame(const struct deadline *d)
{
	int r;

	model_frame();
	r = wait_any(d);
	model_frame_over();
	return r;
}

static void reader_of_any(void *arg)
{
	int r;

	while ((r = wait_any_in_frame(NULL)) == 0)
		;
	*(int *)arg = r == 1 ? 0 : r;
	add_sc(&back, 1);
}

static void timed_reader_of_any(void *arg)
{
	int r;

	while ((r = wait_any_in_frame(&soon)) == 0)
		;
	*(int *)arg = r == 1 ? 0 : r;
	add_sc(&back, 1);
}

MODEL_UNWATCHED static bool event_or_end(const void *arg)
{
	(void)arg;
	return kernel[0].pending || kernel[1].pending || back == reading;
}

/* As sysmon, or an M without a P: looks whenever there is an event. With an argument as one that
 * sleeps in the poller. */
static void poller(void *arg)
{
	for (;;) {
		struct glist list;
		model_until(event_or_end, NULL, "an event");
		if (ld_sc(&back) == reading)
			return;
		list = netpoll(arg != NULL);
		injectglist(NULL, &list);
	}
}

static void check_read(void)
{
	nobody_waits();
	EXPECT_EQ(result[0], 0);
}

/* There was something, which somebody has taken. */
TEST(a_descriptor_that_is_given_up_while_somebody_comes_to_wait_loses_no_wake_up)
{
	begin(1, true);
	descof(0, false)->vain = POLL_VAIN;
	kernel[0].pending = 1;
	stage_g("reader", reader, &result[0]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("sleeper", poller, &kernel);
	model_finally(check_read);
}

TEST(an_event_on_a_descriptor_that_is_not_known_yet_is_not_lost)
{
	begin(1, false);
	stage_g("reader", reader, &result[0]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	model_finally(check_read);
}

TEST(an_event_between_ticket_and_wait_is_not_lost)
{
	begin(1, true);
	stage_g("reader", reader, &result[0]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	model_finally(check_read);
}

static void check_two(void)
{
	check_read();
	EXPECT_EQ(result[1], 0);
}

TEST_BOUND(an_event_wakes_all_who_wait_for_it, 4)
{
	begin(2, true);
	stage_g("reader1", reader, &result[0]);
	stage_g("reader2", reader, &result[1]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	model_finally(check_two);
}

static void check_timed(void)
{
	nobody_waits();
	EXPECT(result[0] == 0 || result[0] == -ETIMEDOUT_);
	model_reach(result[0] == 0);
}

TEST(an_event_or_the_deadline_ends_a_wait)
{
	begin(1, true);
	stage_g("reader", timed_reader, &result[0]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	model_finally(check_timed);
	model_must_reach(2);
}

static void check_two_timed(void)
{
	check_timed();
	EXPECT_EQ(result[1], 0);
}

TEST_BOUND(one_whose_time_is_up_leaves_the_others_waiting, 3)
{
	begin(2, true);
	stage_g("timed", timed_reader, &result[0]);
	stage_g("reader", reader, &result[1]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	model_finally(check_two_timed);
	model_must_reach(2);
}

static void check_nomem(void)
{
	nobody_waits();
	EXPECT(result[0] == 0 || result[0] == -ENOMEM_);
	model_reach(result[0] == 0);
}

TEST(a_wait_without_a_timer_to_be_had_ends_once)
{
	begin(1, true);
	stage_nomem = true;
	stage_g("reader", timed_reader, &result[0]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	model_finally(check_nomem);
	model_must_reach(2);
}

static void check_no_timer(void)
{
	nobody_waits();
	EXPECT_EQ(result[0], -ENOMEM_);
}

TEST(a_wait_without_a_timer_to_be_had_does_not_sleep)
{
	begin(1, true);
	stage_nomem = true;
	stage_g("reader", timed_reader, &result[0]);
	model_finally(check_no_timer);
}

static uint32_t came_before;

static void interrupter(void *arg)
{
	(void)arg;
	came_before = ld_sc(&kernel[0].data);
	count_of = gointerrupt(&actors[0].g);
}

static void check_interrupted(void)
{
	nobody_waits();
	EXPECT(result[0] == 0 || (result[0] == -EINTR_ && count_of && !came_before));
	model_reach(result[0] == 0);
}

TEST(an_event_or_a_signal_ends_a_wait)
{
	begin(1, true);
	stage_g("reader", reader, &result[0]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	stage_g("signaller", interrupter, NULL);
	model_finally(check_interrupted);
	model_must_reach(2);
}

/* ---- any of several ---- */

TEST_BOUND(an_event_on_any_of_two_ends_the_wait_once, 4)
{
	begin(1, true);
	stage_g("reader", reader_of_any, &result[0]);
	stage_foreign("world", arrive, (void *)0);
	stage_foreign("world2", arrive, (void *)1);
	stage_foreign("poller", poller, NULL);
	model_finally(check_read);
}

TEST_BOUND(an_event_on_any_of_two_that_are_not_known_yet_is_not_lost, 4)
{
	begin(1, false);
	stage_g("reader", reader_of_any, &result[0]);
	stage_foreign("world2", arrive, (void *)1);
	stage_foreign("poller", poller, NULL);
	model_finally(check_read);
}

TEST_BOUND(an_event_on_any_of_two_or_the_deadline_ends_the_wait, 4)
{
	begin(1, true);
	stage_g("reader", timed_reader_of_any, &result[0]);
	stage_foreign("world2", arrive, (void *)1);
	stage_foreign("poller", poller, NULL);
	model_finally(check_timed);
	model_must_reach(2);
}

/* ---- told by others ---- */

static void poke(void *arg)
{
	(void)arg;
	st_sc(&kernel[0].data, 1);
	netpoll_poke(0, POLL_READ);
}

TEST(who_is_told_that_there_may_be_an_event_is_not_left_asleep)
{
	begin(1, true);
	stage_g("reader", reader, &result[0]);
	stage_g("writer", poke, NULL);
	model_finally(check_read);
}

static void poke_and_arrive(void *arg)
{
	poke(arg);
	arrive(arg);
}

TEST_BOUND(who_is_told_twice_wakes_once_for_each_wait, 5)
{
	begin(1, true);
	stage_g("reader", reader, &result[0]);
	stage_g("writer", poke_and_arrive, (void *)0);
	stage_foreign("poller", poller, NULL);
	model_finally(check_read);
}

/* ---- closed ---- */

static void closer(void *arg)
{
	(void)arg;
	st_sc(&kernel[0].closed, 1);
	count_of = netpoll_forget(0, -1);
}

static void check_closed(void)
{
	nobody_waits();
	EXPECT(result[0] == 1 || result[0] == -ESTALE_);
	EXPECT_EQ(count_of, result[0] == -ESTALE_);
	model_reach(result[0] == 1);
}

TEST(who_waits_for_a_descriptor_that_is_forgotten_comes_back)
{
	begin(1, true);
	stage_g("reader", reader, &result[0]);
	stage_g("closer", closer, NULL);
	model_finally(check_closed);
	model_must_reach(2);
}

static void check_closed_timed(void)
{
	nobody_waits();
	EXPECT(result[0] == 1 || result[0] == -ESTALE_ || result[0] == -ETIMEDOUT_);
	EXPECT_EQ(count_of, result[0] == -ESTALE_);
}

TEST(who_waits_for_a_descriptor_that_is_forgotten_or_the_deadline_comes_back_once)
{
	begin(1, true);
	stage_g("reader", timed_reader, &result[0]);
	stage_g("closer", closer, NULL);
	model_finally(check_closed_timed);
}

/* ---- made sure of ---- */

MODEL_UNWATCHED static bool sleeps_or_end(const void *arg)
{
	(void)arg;
	return back == reading || stage_parked(&actors[0].g);
}

static void verifier(void *arg)
{
	(void)arg;
	netpoll_verify(INT32_MAX);
	model_until(sleeps_or_end, NULL, "the reader sleeps");
	/* Before it blocks in the poller itself. It is who ran next on the reader's M, or came to
	 * know of that by way of a lock. */
	lock(&descof(0, false)->lock);
	unlock(&descof(0, false)->lock);
	netpoll_verify(INT32_MAX);
}

/* The file that the registration was for is gone, and nobody said so; there is something to read
 * already, of which no event tells. */
TEST(a_registration_that_is_gone_is_made_anew_before_an_m_blocks)
{
	begin(1, true);
	kernel[0].watched = 0;
	stage_g("reader", reader, &result[0]);
	stage_foreign("verifier", verifier, NULL);
	stage_foreign("poller", poller, NULL);
	stage_foreign("world", arrive, (void *)0);
	model_finally(check_read);
}
