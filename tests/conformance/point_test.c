/* Every point of cancellation: who was cancelled before ends in the call, though it could have gone
 * on at once, and the call has done nothing; who waits in one is cancelled there. (What waits for
 * descriptors, queues and children is cancelled in its wait by the rows of block_*_test.c.) The
 * same holds natively.
 *
 *   POINT(read, piped("x"), read(fd[0], buf, 1), drain(fd[0]) == 1)
 *
 * is such a call: what is done before, the call, and what holds afterwards. WAIT is one of a thread
 * that is asleep there before it is cancelled, BOTH is one as the other. */
#include "pair.h"

#include <aio.h>
#include <mqueue.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <termios.h>
#include <threads.h>

static int fd[2], other[2] = { -1, -1 }, queue;
static char buf[16], path[64];
static struct iovec vector = { buf, 1 };
static struct msghdr message = { .msg_iov = &vector, .msg_iovlen = 1 };
static struct mmsghdr messages = { .msg_hdr = { .msg_iov = &vector, .msg_iovlen = 1 } };
static struct timespec until;
static const struct timespec long_time = { .tv_sec = SLOW_MS / 1000 };
static struct aiocb aio;
static sigset_t set;

/* ---- a thread that ends in a call ---- */

static void *ends_there(void *arg)
{
	void (*calls)(void);

	memcpy(&calls, arg, sizeof(calls));
	pthread_cleanup_push(cleans, NULL);
	calls();
	pthread_cleanup_pop(0);
	return NULL;
}

static void was_cancelled(void (*calls)(void))
{
	EXPECT_EQ(on_thread(ends_there, &calls), (long)PTHREAD_CANCELED);
	EXPECT_EQ(cleaned.n, 1);
}

static void is_cancelled(void (*waits)(void))
{
	pthread_t t;

	start(&t, 1, ends_there, &waits);
	await(&entered, 1);
	settle();
	EXPECT_EQ(pthread_cancel(t), 0);
	expect_cancelled(t);
	EXPECT_EQ(cleaned.n, 1);
}

#define CALLS(verb, name, before, call)                                                            \
	static void __attribute__((noipa)) verb##_##name(void)                                     \
	{                                                                                          \
		before;                                                                            \
		call;                                                                              \
		EXPECT(!"reached");                                                                \
	}

#define POINT(name, before, call, left)                                                            \
	CALLS(calls, name, before; EXPECT_EQ(pthread_cancel(pthread_self()), 0), call)             \
	TEST(who_was_cancelled_before_ends_in_##name)                                              \
	{                                                                                          \
		was_cancelled(calls_##name);                                                       \
		EXPECT(left);                                                                      \
	}

#define WAIT(name, before, call, left)                                                             \
	CALLS(waits, name, before; tick(&entered), call)                                           \
	TEST(who_waits_in_##name##_is_cancelled)                                                   \
	{                                                                                          \
		is_cancelled(waits_##name);                                                        \
		EXPECT(left);                                                                      \
	}

#define BOTH(name, before, call, left)                                                             \
	POINT(name, before, call, left)                                                            \
	WAIT(name, before, call, left)

/* ---- descriptors ---- */

static void piped(const char *text)
{
	EXPECT_EQ(pipe(fd), 0);
	write_all(fd[1], text, strlen(text));
}

static void two_pipes(const char *text)
{
	EXPECT_EQ(pipe(other), 0);
	piped(text);
}

static void paired(int type, const char *text)
{
	EXPECT_EQ(socketpair(AF_UNIX, type, 0, fd), 0);
	if (text[0])
		EXPECT_EQ(send(fd[1], text, strlen(text), 0), (long)strlen(text));
}

static void watched(void)
{
	struct epoll_event event = { .events = EPOLLIN };

	piped("x");
	other[0] = epoll_create1(0);
	EXPECT_EQ(epoll_ctl(other[0], EPOLL_CTL_ADD, fd[0], &event), 0);
}

static fd_set *only(int one)
{
	static fd_set fds;

	FD_ZERO(&fds);
	FD_SET(one, &fds);
	return &fds;
}

static struct pollfd *polled(int one)
{
	static struct pollfd p;

	p = (struct pollfd){ .fd = one, .events = POLLIN };
	return &p;
}

static bool holds(int from, const char *text)
{
	char in[16] = { 0 };
	struct pollfd p = { .fd = from, .events = POLLIN };

	if (poll(&p, 1, 0) == 0)
		return text[0] == 0;
	EXPECT(read(from, in, sizeof(in) - 1) > 0);
	return strcmp(in, text) == 0;
}

POINT(read, piped("x"), read(fd[0], buf, 1), holds(fd[0], "x"))
POINT(readv, piped("x"), readv(fd[0], &vector, 1), holds(fd[0], "x"))
POINT(preadv2, piped("x"), preadv2(fd[0], &vector, 1, -1, 0), holds(fd[0], "x"))
POINT(write, piped(""), write(fd[1], "x", 1), holds(fd[0], ""))
POINT(writev, piped(""), writev(fd[1], &vector, 1), holds(fd[0], ""))
POINT(pwritev2, piped(""), pwritev2(fd[1], &vector, 1, -1, 0), holds(fd[0], ""))
POINT(poll, piped("x"), poll(polled(fd[0]), 1, 0), true)
POINT(ppoll, piped("x"), ppoll(polled(fd[0]), 1, &until, NULL), true)
POINT(select, piped("x"), select(fd[0] + 1, only(fd[0]), NULL, NULL, NULL), true)
POINT(pselect, piped("x"), pselect(fd[0] + 1, only(fd[0]), NULL, NULL, NULL, NULL), true)
POINT(epoll_wait, watched(), epoll_wait(other[0], &(struct epoll_event){ 0 }, 1, 0), true)
POINT(epoll_pwait, watched(), epoll_pwait(other[0], &(struct epoll_event){ 0 }, 1, 0, NULL), true)
POINT(splice, two_pipes("x"), splice(fd[0], NULL, other[1], NULL, 1, 0),
      holds(fd[0], "x") && holds(other[0], ""))
POINT(tee, two_pipes("x"), tee(fd[0], other[1], 1, 0), holds(other[0], ""))
POINT(vmsplice, piped(""), vmsplice(fd[1], &vector, 1, 0), holds(fd[0], ""))
POINT(close, piped(""), close(fd[0]), fcntl(fd[0], F_GETFD) == 0)

/* ---- sockets ---- */

static void listens(bool connects)
{
	static struct sockaddr_in at;

	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	own_address(fd[0], &at);
	EXPECT_EQ(listen(fd[0], 4), 0);
	fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	if (connects)
		EXPECT_EQ(connect(fd[1], (struct sockaddr *)&at, sizeof(at)), 0);
}

static const struct sockaddr *address(int of)
{
	static struct sockaddr_in at;
	socklen_t len = sizeof(at);

	EXPECT_EQ(getsockname(of, (struct sockaddr *)&at, &len), 0);
	return (struct sockaddr *)&at;
}

static bool is_connected(int one)
{
	struct sockaddr_in at;
	socklen_t len = sizeof(at);

	return getpeername(one, (struct sockaddr *)&at, &len) == 0;
}

static const struct sockaddr *to;

POINT(accept, listens(true), accept(fd[0], NULL, NULL), poll(polled(fd[0]), 1, 0) == 1)
POINT(accept4, listens(true), accept4(fd[0], NULL, NULL, 0), poll(polled(fd[0]), 1, 0) == 1)
POINT(connect, listens(false);
      to = address(fd[0]), connect(fd[1], to, sizeof(struct sockaddr_in)), !is_connected(fd[1]))
POINT(recv, paired(SOCK_STREAM, "x"), recv(fd[0], buf, 1, 0), holds(fd[0], "x"))
POINT(recvfrom, paired(SOCK_DGRAM, "x"), recvfrom(fd[0], buf, 1, 0, NULL, NULL), holds(fd[0], "x"))
POINT(recvmsg, paired(SOCK_STREAM, "x"), recvmsg(fd[0], &message, 0), holds(fd[0], "x"))
POINT(recvmmsg, paired(SOCK_DGRAM, "x"), recvmmsg(fd[0], &messages, 1, 0, NULL), holds(fd[0], "x"))
POINT(send, paired(SOCK_STREAM, ""), send(fd[1], "x", 1, 0), holds(fd[0], ""))
POINT(sendto, paired(SOCK_DGRAM, ""), sendto(fd[1], "x", 1, 0, NULL, 0), holds(fd[0], ""))
POINT(sendmsg, paired(SOCK_STREAM, ""), sendmsg(fd[1], &message, 0), holds(fd[0], ""))
POINT(sendmmsg, paired(SOCK_DGRAM, ""), sendmmsg(fd[1], &messages, 1, 0), holds(fd[0], ""))

/* ---- files ---- */

static const char *in_folder(const char *name)
{
	snprintf(path, sizeof(path), "/tmp/heddle-point-%d-%s", (int)getpid(), name);
	return path;
}

static void filed(const char *text)
{
	fd[0] = memfd_create("point", 0);
	write_all(fd[0], text, strlen(text));
	EXPECT_EQ(lseek(fd[0], 0, SEEK_SET), 0);
}

static long length(void)
{
	return lseek(fd[0], 0, SEEK_END);
}

static struct flock *whole(void)
{
	static struct flock lock;

	lock = (struct flock){ .l_type = F_WRLCK, .l_whence = SEEK_SET };
	return &lock;
}

/* As seen by another description, and a lock of the process's too. */
static bool is_unlocked(void)
{
	char name[32];
	struct flock *lock = whole();

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd[0]);
	other[0] = open(name, O_RDWR);
	EXPECT_EQ(fcntl(other[0], F_OFD_GETLK, lock), 0);
	return lock->l_type == F_UNLCK;
}

static bool not_opened(int before)
{
	int next = dup(0);

	close(next);
	return next == before;
}

static void finds_next(void)
{
	other[0] = dup(0);
	EXPECT_EQ(close(other[0]), 0);
}

static void makes_fifo(void)
{
	EXPECT_EQ(mkfifo(in_folder("fifo"), 0600), 0);
}

static bool removes(void)
{
	return unlink(path) == 0;
}

static off_t *nowhere_in_particular(void)
{
	static off_t at;

	return &at;
}

POINT(open, finds_next(), open("/dev/null", O_RDONLY), not_opened(other[0]))
POINT(openat, finds_next(), openat(AT_FDCWD, "/dev/null", O_RDONLY), not_opened(other[0]))
POINT(creat, in_folder("new"), creat(path, 0600), access(path, F_OK) != 0)
POINT(pread, filed("x"), pread(fd[0], buf, 1, 0), buf[0] == 0)
POINT(preadv, filed("x"), preadv(fd[0], &vector, 1, 0), buf[0] == 0)
POINT(pwrite, filed(""), pwrite(fd[0], "x", 1, 0), length() == 0)
POINT(pwritev, filed(""), pwritev(fd[0], &vector, 1, 0), length() == 0)
POINT(fsync, filed("x"), fsync(fd[0]), true)
POINT(fdatasync, filed("x"), fdatasync(fd[0]), true)
POINT(msync, memcpy(buf, &(void *){ mapped(MAP_SHARED) }, sizeof(void *)),
      msync(*(void **)(void *)buf, PAGE, MS_SYNC), true)
POINT(fallocate, filed(""), fallocate(fd[0], 0, 0, PAGE), length() == 0)
POINT(copy_file_range, filed("x"),
      copy_file_range(fd[0], nowhere_in_particular(), fd[0], &(off_t){ 8 }, 1, 0), length() == 1)
POINT(sync_file_range, filed("x"), sync_file_range(fd[0], 0, 1, SYNC_FILE_RANGE_WRITE), true)
POINT(open_by_handle_at, finds_next(),
      open_by_handle_at(AT_FDCWD, &(struct file_handle){ 0 }, O_RDONLY), not_opened(other[0]))
POINT(fcntl_F_SETLKW, filed("x"), fcntl(fd[0], F_SETLKW, whole()), is_unlocked())
POINT(fcntl_F_OFD_SETLKW, filed("x"), fcntl(fd[0], F_OFD_SETLKW, whole()), is_unlocked())
POINT(lockf, filed("x"), lockf(fd[0], F_LOCK, 0), is_unlocked())
WAIT(openat_of_a_fifo, makes_fifo(), openat(AT_FDCWD, path, O_RDONLY), removes())
WAIT(creat_of_a_fifo, makes_fifo(), creat(path, 0600), removes())

static void opens_terminal(void)
{
	fd[0] = posix_openpt(O_RDWR | O_NOCTTY);
	EXPECT_EQ(grantpt(fd[0]), 0);
	EXPECT_EQ(unlockpt(fd[0]), 0);
	fd[1] = open(ptsname(fd[0]), O_RDWR | O_NOCTTY);
	EXPECT(fd[1] >= 0);
}

POINT(tcdrain, opens_terminal(), tcdrain(fd[1]), true)

static void reads_later(void)
{
	EXPECT_EQ(pipe(fd), 0);
	aio = (struct aiocb){ .aio_fildes = fd[0], .aio_buf = buf, .aio_nbytes = 1 };
	aio.aio_sigevent.sigev_notify = SIGEV_NONE;
	EXPECT_EQ(aio_read(&aio), 0);
}

static bool reads_still(void)
{
	EXPECT_EQ(aio_error(&aio), EINPROGRESS);
	feeds_pipe(&(struct wait){ .fd = { fd[0], fd[1] } });
	while (aio_error(&aio) == EINPROGRESS)
		usleep(100);
	return aio_return(&aio) == 1;
}

BOTH(aio_suspend, reads_later(), aio_suspend(&(const struct aiocb *){ &aio }, 1, NULL),
     reads_still())

/* ---- messages ---- */

static void sends_mq(const char *text)
{
	struct mq_attr attr = { .mq_maxmsg = 2, .mq_msgsize = sizeof(buf) };
	char name[64];

	snprintf(name, sizeof(name), "/heddle-point-%d", (int)getpid());
	queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	EXPECT(queue >= 0);
	EXPECT_EQ(mq_unlink(name), 0);
	if (text[0])
		EXPECT_EQ(mq_send(queue, text, strlen(text), 0), 0);
	until = in_ms(CLOCK_REALTIME, SLOW_MS);
}

static long in_mq(void)
{
	struct mq_attr attr;

	EXPECT_EQ(mq_getattr(queue, &attr), 0);
	return attr.mq_curmsgs;
}

static struct {
	long type;
	char text[1];
} letter = { 1, "x" };

static void sends_msg(bool one)
{
	queue = msgget(IPC_PRIVATE, 0600);
	EXPECT(queue >= 0);
	if (one)
		EXPECT_EQ(msgsnd(queue, &letter, 1, 0), 0);
}

static long in_msg(void)
{
	struct msqid_ds ds;

	EXPECT_EQ(msgctl(queue, IPC_STAT, &ds), 0);
	EXPECT_EQ(msgctl(queue, IPC_RMID, NULL), 0);
	return (long)ds.msg_qnum;
}

POINT(mq_receive, sends_mq("x"), mq_receive(queue, buf, sizeof(buf), NULL), in_mq() == 1)
POINT(mq_timedreceive, sends_mq("x"), mq_timedreceive(queue, buf, sizeof(buf), NULL, &until),
      in_mq() == 1)
POINT(mq_send, sends_mq(""), mq_send(queue, "x", 1, 0), in_mq() == 0)
POINT(mq_timedsend, sends_mq(""), mq_timedsend(queue, "x", 1, 0, &until), in_mq() == 0)
POINT(msgrcv, sends_msg(true), msgrcv(queue, &letter, 1, 0, 0), in_msg() == 1)
POINT(msgsnd, sends_msg(false), msgsnd(queue, &letter, 1, 0), in_msg() == 0)

/* ---- children ---- */

static pid_t child;

static void bears(void)
{
	siginfo_t info;

	child = fork();
	if (child == 0)
		_exit(0);
	EXPECT_EQ(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT), 0);
}

static bool is_unreaped(void)
{
	return waitpid(child, NULL, WNOHANG) == child;
}

/* Ends with the pipe. */
static void bears_one_that_stays(void)
{
	piped("");
	child = fork();
	if (child == 0)
		_exit(read(fd[0], buf, 1) == 1 ? 0 : 1);
}

static bool stays(void)
{
	EXPECT_EQ(waitpid(child, NULL, WNOHANG), 0);
	EXPECT_EQ(write(fd[1], "x", 1), 1);
	return status_of(child) == 0;
}

static bool no_child(void)
{
	return waitpid(-1, NULL, 0) == -1 && errno == ECHILD;
}

POINT(wait, bears(), wait(NULL), is_unreaped())
POINT(waitpid, bears(), waitpid(child, NULL, 0), is_unreaped())
POINT(waitid, bears(), waitid(P_PID, (id_t)child, NULL, WEXITED), is_unreaped())
POINT(wait3, bears(), wait3(NULL, 0, NULL), is_unreaped())
POINT(wait4, bears(), wait4(child, NULL, 0, NULL), is_unreaped())
WAIT(wait, bears_one_that_stays(), wait(NULL), stays())
WAIT(wait3, bears_one_that_stays(), wait3(NULL, 0, NULL), stays())
POINT(system, , EXPECT(system("exit 3") >= 0), no_child())
WAIT(system, , EXPECT(system("exec sleep 60") >= 0), no_child())

/* ---- signals ---- */

static void expects(int sig)
{
	sigemptyset(&set);
	sigaddset(&set, sig);
	handle(sig, 0);
	mask(SIG_BLOCK, sig);
}

static void is_sent(int sig)
{
	expects(sig);
	EXPECT_EQ(raise(sig), 0);
}

/* sigpause() by its own name, for the header warns of it. */
int __xpg_sigpause(int sig);

static sigset_t *empty(void)
{
	static sigset_t none;

	sigemptyset(&none);
	return &none;
}

POINT(sigwait, is_sent(SIGUSR1), sigwait(&set, &queue), queue == 0)
POINT(sigwaitinfo, is_sent(SIGUSR1), sigwaitinfo(&set, NULL), true)
POINT(sigtimedwait, is_sent(SIGUSR1), sigtimedwait(&set, NULL, &until), true)
POINT(sigsuspend, is_sent(SIGUSR1), sigsuspend(empty()), handled.n == 0)
POINT(sigpause, is_sent(SIGUSR1), __xpg_sigpause(SIGUSR1), handled.n == 0)
WAIT(sigpause, expects(SIGUSR1), __xpg_sigpause(SIGUSR1), handled.n == 0)
BOTH(pause, , pause(), true)

/* ---- sleeps ---- */

BOTH(nanosleep, , nanosleep(&long_time, NULL), true)
BOTH(clock_nanosleep, , clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL), true)
BOTH(clock_nanosleep_until, until = in_ms(CLOCK_REALTIME, SLOW_MS),
     clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &until, NULL), true)
BOTH(sleep, , sleep(SLOW_MS / 1000), true)
BOTH(usleep, , usleep(SLOW_MS * 1000), true)
BOTH(thrd_sleep, , thrd_sleep(&long_time, NULL), true)
POINT(pthread_testcancel, , pthread_testcancel(), true)

/* ---- threads and what they wait for ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static sem_t semaphore;
static pthread_t joined;
static thrd_t joined_thrd;
static mtx_t mtx;
static cnd_t cnd;

static void locks(clockid_t clock)
{
	EXPECT_EQ(pthread_mutex_lock(&mutex), 0);
	until = in_ms(clock, SLOW_MS);
}

/* By the one that ended. */
static bool is_locked(void)
{
	return pthread_mutex_trylock(&mutex) == EBUSY;
}

static void locks_mtx(void)
{
	EXPECT_EQ(mtx_init(&mtx, mtx_plain), thrd_success);
	EXPECT_EQ(cnd_init(&cnd), thrd_success);
	EXPECT_EQ(mtx_lock(&mtx), thrd_success);
	until = in_ms(CLOCK_REALTIME, SLOW_MS);
}

static bool is_locked_mtx(void)
{
	return mtx_trylock(&mtx) == thrd_busy;
}

static void counts_to(unsigned value, clockid_t clock)
{
	EXPECT_EQ(sem_init(&semaphore, 0, value), 0);
	until = in_ms(clock, SLOW_MS);
}

static int value(void)
{
	int n;

	EXPECT_EQ(sem_getvalue(&semaphore, &n), 0);
	return n;
}

static void *takes(void *arg)
{
	EXPECT_EQ(sem_wait(&semaphore), 0);
	return arg;
}

static int takes_thrd(void *arg)
{
	takes(arg);
	return 4;
}

static void begins_another(clockid_t clock)
{
	counts_to(0, clock);
	start(&joined, 1, takes, &cond);
}

static bool is_joined(void)
{
	sem_post(&semaphore);
	return result_of(joined) == (long)&cond;
}

static void begins_another_thrd(void)
{
	counts_to(0, CLOCK_REALTIME);
	EXPECT_EQ(thrd_create(&joined_thrd, takes_thrd, NULL), thrd_success);
}

static bool is_joined_thrd(void)
{
	int result = 0;

	sem_post(&semaphore);
	return thrd_join(joined_thrd, &result) == thrd_success && result == 4;
}

BOTH(pthread_cond_wait, locks(0), pthread_cond_wait(&cond, &mutex), is_locked())
BOTH(pthread_cond_timedwait, locks(CLOCK_REALTIME), pthread_cond_timedwait(&cond, &mutex, &until),
     is_locked())
BOTH(pthread_cond_clockwait, locks(CLOCK_MONOTONIC),
     pthread_cond_clockwait(&cond, &mutex, CLOCK_MONOTONIC, &until), is_locked())
BOTH(cnd_wait, locks_mtx(), cnd_wait(&cnd, &mtx), is_locked_mtx())
BOTH(cnd_timedwait, locks_mtx(), cnd_timedwait(&cnd, &mtx, &until), is_locked_mtx())
POINT(sem_wait, counts_to(1, 0), sem_wait(&semaphore), value() == 1)
POINT(sem_timedwait, counts_to(1, CLOCK_REALTIME), sem_timedwait(&semaphore, &until), value() == 1)
WAIT(sem_wait, counts_to(0, 0), sem_wait(&semaphore), value() == 0)
WAIT(sem_timedwait, counts_to(0, CLOCK_REALTIME), sem_timedwait(&semaphore, &until), value() == 0)
/* With a value to take glibc does not look. */
BOTH(sem_clockwait, counts_to(0, CLOCK_MONOTONIC),
     sem_clockwait(&semaphore, CLOCK_MONOTONIC, &until), value() == 0)
BOTH(pthread_join, begins_another(0), pthread_join(joined, NULL), is_joined())
BOTH(pthread_timedjoin_np, begins_another(CLOCK_REALTIME),
     pthread_timedjoin_np(joined, NULL, &until), is_joined())
BOTH(pthread_clockjoin_np, begins_another(CLOCK_MONOTONIC),
     pthread_clockjoin_np(joined, NULL, CLOCK_MONOTONIC, &until), is_joined())
BOTH(thrd_join, begins_another_thrd(), thrd_join(joined_thrd, NULL), is_joined_thrd())
