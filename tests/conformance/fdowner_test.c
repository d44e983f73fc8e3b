/* Signals of descriptors that one thread owns (F_SETOWN_EX, F_OWNER_TID): only that one has them,
 * whether it sleeps or runs. The same holds natively. */
#include "event.h"
#include "others.h"

#include <fcntl.h>
#include <sys/socket.h>

enum { OWNERS = 4, ROUNDS = 50, SIG = 41 };

static struct owner {
	pthread_t self;
	int ours, theirs;
	int signal; /* 0: SIGIO */
	struct event came;
} owners[OWNERS];

static struct event ready, over;
static _Atomic int wrong;

static void comes_to_owner(int sig, siginfo_t *info, void *context)
{
	int mine = 0;

	(void)context;
	for (int i = 0; i < OWNERS; i++) {
		struct owner *o = &owners[i];
		if (!pthread_equal(o->self, pthread_self()))
			continue;
		mine++;
		wrong += sig != (o->signal ? o->signal : SIGIO);
		wrong += o->signal && info->si_fd != o->ours;
		tick(&o->came);
	}
	wrong += mine != 1;
}

static void listens(void)
{
	struct sigaction act = { .sa_sigaction = comes_to_owner,
				 .sa_flags = SA_SIGINFO | SA_RESTART };

	EXPECT_EQ(sigaction(SIGIO, &act, NULL), 0);
	EXPECT_EQ(sigaction(SIG, &act, NULL), 0);
}

static void own(struct owner *o)
{
	struct f_owner_ex me = { F_OWNER_TID, gettid() }, got;
	int pair[2];

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, pair), 0);
	o->ours = pair[0];
	o->theirs = pair[1];
	o->self = pthread_self();
	EXPECT_EQ(fcntl(o->ours, F_SETOWN_EX, &me), 0);
	EXPECT_EQ(fcntl(o->ours, F_GETOWN_EX, &got), 0);
	EXPECT_EQ(got.type, F_OWNER_TID);
	EXPECT_EQ(got.pid, gettid());
	EXPECT_EQ(fcntl(o->ours, F_GETOWN), gettid());
	if (o->signal)
		EXPECT_EQ(fcntl(o->ours, F_SETSIG, o->signal), 0);
	EXPECT_EQ(fcntl(o->ours, F_SETFL, O_ASYNC), 0);
}

static void *owns(void *arg)
{
	struct owner *o = arg;

	o->signal = (o - owners) % 2 ? SIG : 0;
	own(o);
	tick(&ready);
	/* Two sleep, and two compute. */
	if (o - owners < 2)
		await(&over, 1);
	while (!atomic_load(&over.n))
		continue;
	return arg;
}

static void signals_each(void)
{
	for (int n = 1; n <= ROUNDS; n++)
		for (int i = 0; i < OWNERS; i++) {
			EXPECT_EQ(send(owners[i].theirs, "x", 1, 0), 1);
			await(&owners[i].came, n);
		}
	EXPECT_EQ(wrong, 0);
}

TEST(only_the_owner_has_its_signals)
{
	pthread_t t[OWNERS];

	listens();
	for (int i = 0; i < OWNERS; i++)
		start(t + i, 1, owns, owners + i);
	await(&ready, OWNERS);
	signals_each();
	tick(&over);
	join(t, OWNERS);
}

static void *sends(void *arg)
{
	signals_each();
	tick(&over);
	return arg;
}

TEST(so_has_the_first_thread_that_was_an_owner_before_there_was_another)
{
	pthread_t t[OWNERS];

	listens();
	own(&owners[0]);
	for (int i = 1; i < OWNERS; i++)
		start(t + i, 1, owns, owners + i);
	await(&ready, OWNERS - 1);
	start(t, 1, sends, NULL);
	await(&over, 1);
	join(t, OWNERS);
}

TEST(nobody_owns_what_is_no_pointer)
{
	int fd = open("/dev/null", O_RDONLY);

	FAILS(fcntl(fd, F_SETOWN_EX, 8), EFAULT);
	FAILS(fcntl(fd, F_GETOWN_EX, 8), EFAULT);
	FAILS(fcntl(-1, F_GETOWN), EBADF);
}
