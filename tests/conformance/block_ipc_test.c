/* Message queues and semaphores of System V and POSIX, asynchronous I/O, name look-ups. The
 * same holds natively. */
#include "common.h"

#include <aio.h>
#include <mqueue.h>
#include <netdb.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/stat.h>

/* ---- System V message queues ---- */

struct message {
	long type;
	char text[8];
};

/* They outlive their process: each test removes its own. */
static int queues[WAITERS * 2], nqueues, sets[WAITERS * 2], nsets;

static void remove_all(void)
{
	while (nqueues > 0)
		msgctl(queues[--nqueues], IPC_RMID, NULL);
	while (nsets > 0)
		semctl(sets[--nsets], 0, IPC_RMID);
}

static int queue_new(void)
{
	int q = msgget(IPC_PRIVATE, 0600);

	EXPECT(q >= 0);
	queues[nqueues++] = q;
	return q;
}

static int set_new(int n)
{
	int s = semget(IPC_PRIVATE, n, 0600);

	EXPECT(s >= 0);
	sets[nsets++] = s;
	for (int i = 0; i < n; i++)
		EXPECT_EQ(semctl(s, i, SETVAL, 0), 0);
	return s;
}

static void opens_queue(struct wait *w)
{
	w->more = queue_new();
}

static void sends_message(struct wait *w)
{
	struct message m = { .type = 2, .text = "hello" };

	EXPECT_EQ(msgsnd(w->more, &m, 6, 0), 0);
}

static long in_msgrcv(struct wait *w)
{
	struct message m;
	ssize_t r = msgrcv(w->more, &m, sizeof(m.text), 2, 0);

	EXPECT(r < 0 || (m.type == 2 && strcmp(m.text, "hello") == 0));
	return r;
}

static void opens_full_queue(struct wait *w)
{
	struct message m = { .type = 1 };

	w->more = queue_new();
	while (msgsnd(w->more, &m, sizeof(m.text), IPC_NOWAIT) == 0)
		;
	EXPECT_EQ(errno, EAGAIN);
}

static long in_msgsnd(struct wait *w)
{
	struct message m = { .type = 1 };

	return msgsnd(w->more, &m, sizeof(m.text), 0);
}

static void receives_message(struct wait *w)
{
	struct message m;

	EXPECT_EQ(msgrcv(w->more, &m, sizeof(m.text), 0, 0), 8);
}

/* ---- System V semaphores ---- */

static void opens_set(struct wait *w)
{
	w->more = set_new(2);
}

static long in_semop(struct wait *w)
{
	struct sembuf ops[2] = { { .sem_num = 0, .sem_op = -1 }, { .sem_num = 1, .sem_op = 1 } };
	int r = semop(w->more, ops, 2);

	EXPECT(r != 0 || semctl(w->more, 1, GETVAL) == 1);
	return r;
}

static long in_semtimedop(struct wait *w)
{
	struct sembuf op = { .sem_num = 0, .sem_op = -1 };
	struct timespec t = { .tv_sec = 25 };

	return semtimedop(w->more, &op, 1, &t);
}

static void raises(struct wait *w)
{
	struct sembuf op = { .sem_num = 0, .sem_op = 1 };

	EXPECT_EQ(semop(w->more, &op, 1), 0);
}

/* The rows' tests, with what they made removed. */
#define IPC(name, ...)                                                                             \
	ROW(name, __VA_ARGS__)                                                                     \
	TEST(name##_holds_up_nobody)                                                               \
	{                                                                                          \
		row_holds_up_nobody(&row_##name);                                                  \
		remove_all();                                                                      \
	}                                                                                          \
	TEST(name##_is_interrupted_as_signal_7_says)                                               \
	{                                                                                          \
		row_is_interrupted(&row_##name);                                                   \
		remove_all();                                                                      \
	}

#define IPC_CANCELLED(name)                                                                        \
	TEST(name##_can_be_cancelled)                                                              \
	{                                                                                          \
		row_is_cancelled(&row_##name);                                                     \
		remove_all();                                                                      \
	}

IPC(msgrcv, .open = opens_queue, .block = in_msgrcv, .release = sends_message, .wants = 6)
IPC_CANCELLED(msgrcv)
IPC(msgsnd, .open = opens_full_queue, .block = in_msgsnd, .release = receives_message, .wants = 0)
IPC_CANCELLED(msgsnd)
IPC(semop, .open = opens_set, .block = in_semop, .release = raises, .wants = 0)
IPC(semtimedop, .open = opens_set, .block = in_semtimedop, .release = raises, .wants = 0)

static _Atomic int sum;
static int shared;

/* A slice is looked at first when it is 1 ms old: so old is each when the call begins. */
static void *computes_and_waits(void *arg)
{
	struct sembuf op = { .sem_num = 0, .sem_op = -1 };
	struct timespec t = { .tv_nsec = 3000000 };

	for (int i = 0; i < 250; i++) {
		long until = now_us() + 950 + i % 20 * 10;
		while (now_us() < until)
			;
		EXPECT_EQ(semtimedop(shared, &op, 1, &t), -1);
		EXPECT_EQ(errno, EAGAIN);
	}
	return arg;
}

TEST(no_call_is_interrupted_that_begins_when_its_thread_is_to_give_way)
{
	shared = set_new(1);
	in_threads(8, computes_and_waits);
	remove_all();
}

static void *receives_numbers(void *arg)
{
	struct {
		long type;
		int n;
	} m;

	for (;;) {
		EXPECT_EQ(msgrcv(shared, &m, sizeof(m.n), 0, 0), sizeof(m.n));
		if (m.n < 0)
			return arg;
		atomic_fetch_add(&sum, m.n);
		tick(&returned);
	}
}

TEST(each_message_is_one_receiver_s_and_the_end_of_a_queue_everybody_s)
{
	struct {
		long type;
		int n;
	} m = { .type = 1 };
	struct timespec t = { .tv_nsec = 20 * MS };
	struct sembuf op = { .sem_op = -1 };
	pthread_t threads[4];
	int s = set_new(1);

	shared = queue_new();
	start(threads, 4, receives_numbers, NULL);
	for (m.n = 1; m.n <= 100; m.n++) {
		EXPECT_EQ(msgsnd(shared, &m, sizeof(m.n), 0), 0);
		if (m.n % 25 == 0)
			await(&returned, m.n);
	}
	EXPECT_EQ(sum, 5050);
	m.n = -1;
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(msgsnd(shared, &m, sizeof(m.n), 0), 0);
	join(threads, 4);
	FAILS(msgrcv(shared, &m, sizeof(m.n), 0, IPC_NOWAIT), ENOMSG);
	long long since = now_ms();
	FAILS(semtimedop(s, &op, 1, &t), EAGAIN);
	EXPECT(took(since, 19));
	op.sem_flg = IPC_NOWAIT;
	FAILS(semop(s, &op, 1), EAGAIN);
	op.sem_num = 5;
	FAILS(semop(s, &op, 1), EFBIG);
	remove_all();
	FAILS(msgrcv(shared, &m, sizeof(m.n), 0, 0), EINVAL);
	FAILS(semop(s, &op, 1), EINVAL);
}

static void *waits_for_its_end(void *arg)
{
	struct sembuf op = { .sem_op = -1 };
	struct message m;

	tick(&entered);
	if (arg)
		FAILS(semop(*(int *)arg, &op, 1), EIDRM);
	else
		FAILS(msgrcv(shared, &m, sizeof(m.text), 0, 0), EIDRM);
	return NULL;
}

TEST(who_waits_for_what_is_removed_is_told)
{
	pthread_t t[4];
	int s = set_new(1);

	shared = queue_new();
	for (int i = 0; i < 4; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, waits_for_its_end, i % 2 ? &s : NULL), 0);
	await(&entered, 4);
	settle();
	remove_all();
	join(t, 4);
}

/* ---- POSIX message queues ---- */

static void opens_mq(struct wait *w)
{
	struct mq_attr attr = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	static _Atomic int next;
	char name[40];

	snprintf(name, sizeof(name), "/heddle-%d-%d", (int)getpid(), next++);
	w->more = mq_open(name, O_RDWR | O_CREAT, 0600, &attr);
	EXPECT(w->more >= 0);
	mq_unlink(name);
}

static void opens_full_mq(struct wait *w)
{
	opens_mq(w);
	EXPECT_EQ(mq_send(w->more, "full", 5, 3), 0);
}

static void sends_mq(struct wait *w)
{
	EXPECT_EQ(mq_send(w->more, "abc", 4, 7), 0);
}

static void receives_mq(struct wait *w)
{
	char buf[8];
	unsigned priority;

	EXPECT_EQ(mq_receive(w->more, buf, sizeof(buf), &priority), 5);
	EXPECT_EQ(priority, 3);
}

static long in_mq_receive(struct wait *w)
{
	char buf[8];
	unsigned priority = 0;
	ssize_t r = mq_receive(w->more, buf, sizeof(buf), &priority);

	EXPECT(r < 0 || (priority == 7 && strcmp(buf, "abc") == 0));
	return r;
}

static long in_mq_timedreceive(struct wait *w)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 20000);
	char buf[8];

	return mq_timedreceive(w->more, buf, sizeof(buf), NULL, &t);
}

static long in_mq_send(struct wait *w)
{
	return mq_send(w->more, "xyz", 4, 1);
}

static long in_mq_timedsend(struct wait *w)
{
	struct timespec t = in_ms(CLOCK_REALTIME, 20000);

	return mq_timedsend(w->more, "xyz", 4, 1, &t);
}

static long in_mq_poll(struct wait *w)
{
	struct pollfd p = { .fd = w->more, .events = POLLIN };

	return poll(&p, 1, -1);
}

BLOCKS(mq_receive, .open = opens_mq, .block = in_mq_receive, .release = sends_mq, .wants = 4,
       .how = RESTARTS)
BLOCKS(mq_timedreceive, .open = opens_mq, .block = in_mq_timedreceive, .release = sends_mq,
       .wants = 4, .how = RESTARTS)
BLOCKS(mq_send, .open = opens_full_mq, .block = in_mq_send, .release = receives_mq, .wants = 0,
       .how = RESTARTS)
BLOCKS(mq_timedsend, .open = opens_full_mq, .block = in_mq_timedsend, .release = receives_mq,
       .wants = 0, .how = RESTARTS)
BLOCKS(poll_of_a_message_queue, .open = opens_mq, .block = in_mq_poll, .release = sends_mq,
       .wants = 1)

static void *waits_for_a_while(void *arg)
{
	struct wait w;
	struct timespec t;
	char buf[8];
	long long since;

	opens_mq(&w);
	t = in_ms(CLOCK_REALTIME, 20);
	since = now_ms();
	FAILS(mq_timedreceive(w.more, buf, sizeof(buf), NULL, &t), ETIMEDOUT);
	EXPECT(took(since, 15));
	FAILS(mq_receive(w.more, buf, 3, NULL), EMSGSIZE);
	FAILS(mq_send(w.more, "123456789", 9, 0), EMSGSIZE);
	t.tv_nsec = -1;
	FAILS(mq_timedreceive(w.more, buf, sizeof(buf), NULL, &t), EINVAL);
	EXPECT_EQ(mq_close(w.more), 0);
	FAILS(mq_receive(w.more, buf, sizeof(buf), NULL), EBADF);
	return arg;
}

TEST(a_timed_receive_is_over_after_its_time)
{
	twice(waits_for_a_while);
}

/* ---- asynchronous I/O: glibc's threads do it ---- */

struct aio {
	struct aiocb cb;
	char buf[8];
};

static void opens_aio(struct wait *w)
{
	struct aio *a = w->own = calloc(1, sizeof(*a));

	EXPECT_EQ(pipe(w->fd), 0);
	a->cb.aio_fildes = w->fd[0];
	a->cb.aio_buf = a->buf;
	a->cb.aio_nbytes = sizeof(a->buf);
	a->cb.aio_sigevent.sigev_notify = SIGEV_NONE;
	EXPECT_EQ(aio_read(&a->cb), 0);
}

static long in_aio_suspend(struct wait *w)
{
	struct aio *a = w->own;
	const struct aiocb *list[2] = { NULL, &a->cb };
	int r = aio_suspend(list, 2, NULL);

	if (r == 0) {
		EXPECT_EQ(aio_error(&a->cb), 0);
		EXPECT_EQ(aio_return(&a->cb), 1);
		EXPECT_EQ(a->buf[0], 'x');
	}
	return r;
}

/* signal(7) has it otherwise, but glibc's waits on a futex without a time limit, which go on. */
BLOCKS(aio_suspend, .open = opens_aio, .block = in_aio_suspend, .release = feeds_pipe, .wants = 0,
       .how = RESTARTS | LIBRARY)

static void *reads_and_writes(void *arg)
{
	char path[64], to[16] = "";
	struct aiocb a = { 0 }, b = { 0 };
	struct aiocb *both[2] = { &a, &b };
	const struct aiocb *one = &a;
	struct timespec t = { .tv_nsec = 20 * MS };
	int fd, p[2];

	snprintf(path, sizeof(path), "/tmp/heddle-aio-%d-%p", (int)getpid(), (void *)&t);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	EXPECT(fd >= 0);
	unlink(path);
	a.aio_fildes = b.aio_fildes = fd;
	a.aio_buf = "hello ";
	b.aio_buf = "world";
	a.aio_nbytes = 6;
	b.aio_offset = 6;
	b.aio_nbytes = 5;
	a.aio_lio_opcode = b.aio_lio_opcode = LIO_WRITE;
	EXPECT_EQ(lio_listio(LIO_WAIT, both, 2, NULL), 0);
	EXPECT_EQ(aio_return(&a), 6);
	EXPECT_EQ(aio_return(&b), 5);
	EXPECT_EQ(pread(fd, to, sizeof(to), 0), 11);
	EXPECT(memcmp(to, "hello world", 11) == 0);
	EXPECT_EQ(aio_fsync(O_SYNC, &a), 0);
	while (aio_error(&a) == EINPROGRESS)
		EXPECT_EQ(aio_suspend(&one, 1, NULL), 0);
	EXPECT_EQ(aio_return(&a), 0);
	close(fd);

	EXPECT_EQ(pipe(p), 0);
	a = (struct aiocb){ .aio_fildes = p[0], .aio_buf = to, .aio_nbytes = 4 };
	a.aio_sigevent.sigev_notify = SIGEV_NONE;
	EXPECT_EQ(aio_read(&a), 0);
	EXPECT_EQ(aio_error(&a), EINPROGRESS);
	long long since = now_ms();
	FAILS(aio_suspend(&one, 1, &t), EAGAIN);
	EXPECT(took(since, 19));
	EXPECT_EQ(write(p[1], "abcd", 4), 4);
	EXPECT_EQ(aio_suspend(&one, 1, NULL), 0);
	EXPECT_EQ(aio_return(&a), 4);
	close(p[0]);
	close(p[1]);
	return arg;
}

TEST(asynchronous_reads_and_writes_are_done_and_waited_for)
{
	pthread_t t[3];

	reads_and_writes(NULL);
	start(t, 3, reads_and_writes, NULL);
	join(t, 3);
}

static void notified(union sigval value)
{
	tick(value.sival_ptr);
}

TEST(the_end_of_asynchronous_io_is_told_in_a_thread)
{
	struct aio a = { 0 };
	int p[2];

	EXPECT_EQ(pipe(p), 0);
	a.cb.aio_fildes = p[0];
	a.cb.aio_buf = a.buf;
	a.cb.aio_nbytes = 1;
	a.cb.aio_sigevent.sigev_notify = SIGEV_THREAD;
	a.cb.aio_sigevent.sigev_notify_function = notified;
	a.cb.aio_sigevent.sigev_value.sival_ptr = &handled;
	EXPECT_EQ(aio_read(&a.cb), 0);
	settle();
	EXPECT_EQ(handled.n, 0);
	EXPECT_EQ(write(p[1], "x", 1), 1);
	await(&handled, 1);
	EXPECT_EQ(aio_error(&a.cb), 0);
}

/* ---- names ---- */

static void *looks_up(void *arg)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *list = NULL;
	char name[100];

	for (int i = 0; i < 10; i++) {
		EXPECT_EQ(getaddrinfo("localhost", "80", &hints, &list), 0);
		EXPECT(list != NULL);
		EXPECT(list->ai_family == AF_INET || list->ai_family == AF_INET6);
		EXPECT_EQ(getnameinfo(list->ai_addr, list->ai_addrlen, name, sizeof(name), NULL, 0,
				      NI_NUMERICHOST),
			  0);
		EXPECT(strcmp(name, "127.0.0.1") == 0 || strcmp(name, "::1") == 0);
		freeaddrinfo(list);
	}
	return arg;
}

TEST(several_threads_look_up_localhost)
{
	pthread_t t[6];

	start(t, 6, looks_up, NULL);
	join(t, 6);
}

/* ---- who returns while another is in a call ---- */

enum { ROUNDS = 101 };

static void adds(int id, unsigned short n, short by)
{
	struct sembuf op = { .sem_num = n, .sem_op = by };

	while (semop(id, &op, 1) != 0)
		EXPECT_EQ(errno, EINTR);
}

static void *answers(void *arg)
{
	int id = *(int *)arg;

	for (int i = 0; i < ROUNDS; i++) {
		adds(id, 0, -1);
		adds(id, 1, 1);
	}
	return arg;
}

static int by_value(const void *a, const void *b)
{
	long x = *(const long *)a, y = *(const long *)b;

	return x < y ? -1 : x > y;
}

/* At times, for others want the cpu, too. */
TEST(who_comes_back_from_a_call_goes_on_while_another_is_in_one)
{
	int id = semget(IPC_PRIVATE, 2, 0600);
	long took_us[ROUNDS];
	pthread_t t;

	EXPECT(id >= 0);
	start(&t, 1, answers, &id);
	for (int i = 0; i < ROUNDS; i++) {
		long since;
		usleep(1500);
		since = now_us();
		adds(id, 0, 1);
		adds(id, 1, -1);
		took_us[i] = now_us() - since;
	}
	join(&t, 1);
	semctl(id, 0, IPC_RMID);
	qsort(took_us, ROUNDS, sizeof(*took_us), by_value);
	EXPECT(took_us[ROUNDS / 8] < 2500);
}
