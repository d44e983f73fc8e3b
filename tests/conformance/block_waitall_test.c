/* MSG_WAITALL: what ends a receive that has a part, and what is left for the next. The same holds
 * natively. */
#include "call.h"
#include "pair.h"

#include <netinet/tcp.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>

static int ends[2];
static char buf[64];

static void opens(bool tcp)
{
	int on = 1;

	if (tcp) {
		tcp_pair(ends);
		EXPECT_EQ(setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on)), 0);
	} else {
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	}
	memset(buf, 0, sizeof(buf));
}

static void closes(void)
{
	close(ends[0]);
	close(ends[1]);
}

static void sends(const char *text)
{
	EXPECT_EQ(send(ends[1], text, strlen(text), 0), strlen(text));
}

/* It has that part, and sleeps. */
static pthread_t has_part(struct call *c, const char *part)
{
	pthread_t t;
	int left;

	sends(part);
	t = begins(c);
	EXPECT_EQ(ioctl(ends[0], FIONREAD, &left), 0);
	EXPECT_EQ(left, 0);
	return t;
}

static void gives(pthread_t t, const struct call *c, const char *all)
{
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(c->result, strlen(all));
	EXPECT_EQ(c->error, KEPT);
	EXPECT(memcmp(buf, all, strlen(all)) == 0);
}

static long in_recv(void)
{
	return recv(ends[0], buf, 10, MSG_WAITALL);
}

static long in_recvfrom(void)
{
	struct sockaddr_storage at;
	socklen_t len = sizeof(at);

	return recvfrom(ends[0], buf, 10, MSG_WAITALL, (struct sockaddr *)&at, &len);
}

/* Into the same memory, in several pieces. */
static long in_recvmsg(void)
{
	struct iovec v[5] = { { buf, 1 }, { buf, 0 }, { buf + 1, 3 }, { NULL, 0 }, { buf + 4, 6 } };
	struct msghdr m = { .msg_iov = v, .msg_iovlen = 5, .msg_flags = -1, .msg_namelen = 7 };
	long r = recvmsg(ends[0], &m, MSG_WAITALL | MSG_CMSG_CLOEXEC);

	EXPECT_EQ(m.msg_iov, v);
	EXPECT_EQ(v[2].iov_len, 3);
	EXPECT_EQ(v[4].iov_base, buf + 4);
	if (r >= 0) {
		EXPECT_EQ(m.msg_flags & ~MSG_CTRUNC, MSG_CMSG_CLOEXEC);
		EXPECT_EQ(m.msg_namelen, 7);
		EXPECT_EQ(m.msg_controllen, 0);
	}
	return r;
}

static long (*const ways[])(void) = { in_recv, in_recvmsg, in_recvfrom };

/* Each way, on both kinds. */
#define EACH(...)                                                                                  \
	for (int each = 0; each < 6; each++) {                                                     \
		bool tcp __attribute__((unused)) = each % 2;                                       \
		struct call c __attribute__((unused)) = { .fn = ways[each / 2] };                  \
		pthread_t t __attribute__((unused));                                               \
		opens(each % 2);                                                                   \
		__VA_ARGS__;                                                                       \
		closes();                                                                          \
	}

TEST(all_comes_however_it_is_sent){ EACH({
	t = begins(&c);
	for (int i = 0; i < 10; i++) {
		sends((char[2]){ (char)('a' + i), 0 });
		settle();
		EXPECT_EQ(returned.n, i == 9);
	}
	gives(t, &c, "abcdefghij");
	t = has_part(&c, "012");
	sends("3456789rest");
	gives(t, &c, "0123456789");
	EXPECT_EQ(recv(ends[0], buf, 10, MSG_DONTWAIT), 4);
	EXPECT(memcmp(buf, "rest", 4) == 0);
	sends("klmnopqrst");
	EXPECT_EQ(c.fn(), 10);
}) }

TEST(the_end_leaves_a_part)
{
	for (int how = 0; how < 3; how++)
		EACH({
			t = has_part(&c, "part");
			if (how == 0)
				EXPECT_EQ(close(ends[1]), 0);
			else
				EXPECT_EQ(shutdown(ends[how - 1], how == 1 ? SHUT_RD : SHUT_WR), 0);
			gives(t, &c, "part");
			EXPECT_EQ(recv(ends[0], buf, 10, MSG_WAITALL), 0);
		})
}

TEST(the_end_comes_with_the_last_part){ EACH({
	t = has_part(&c, "part");
	sends("end");
	EXPECT_EQ(close(ends[1]), 0);
	gives(t, &c, "partend");
	EXPECT_EQ(recv(ends[0], buf, 10, MSG_WAITALL), 0);
}) }

/* TCP keeps the error for the next call, a local socket does not. */
TEST(an_error_after_a_part_is_told_to_the_next_call_or_not_at_all){ EACH({
	struct linger now = { .l_onoff = 1 };
	t = has_part(&c, "part");
	if (tcp)
		EXPECT_EQ(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	else
		EXPECT_EQ(send(ends[0], "unread", 6, 0), 6);
	EXPECT_EQ(close(ends[1]), 0);
	gives(t, &c, "part");
	if (tcp)
		FAILS(recv(ends[0], buf, 10, MSG_WAITALL), ECONNRESET);
	EXPECT_EQ(recv(ends[0], buf, 10, MSG_WAITALL), 0);
}) }

TEST(an_error_without_a_part_is_the_call_s){ EACH({
	struct linger now = { .l_onoff = 1 };
	t = begins(&c);
	if (tcp)
		EXPECT_EQ(setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &now, sizeof(now)), 0);
	else
		EXPECT_EQ(send(ends[0], "unread", 6, 0), 6);
	EXPECT_EQ(close(ends[1]), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(c.result, -1);
	EXPECT_EQ(c.error, ECONNRESET);
	EXPECT_EQ(recv(ends[0], buf, 10, MSG_WAITALL), 0);
}) }

/* SA_RESTART does not help what has begun. */
TEST(a_handler_ends_it_with_a_part)
{
	for (int i = 0; i < 2; i++) {
		handle(SIGUSR1, i ? SA_RESTART : 0);
		EACH({
			t = has_part(&c, "part");
			interrupt(t, SIGUSR1, &returned, 1);
			gives(t, &c, "part");
		})
	}
}

/* One signal is enough, sent when the part has been taken. */
TEST(a_handler_that_comes_with_the_part_is_not_missed)
{
	handle(SIGUSR1, SA_RESTART);
	for (int i = 0; i < 40; i++)
		EACH({
			int left = 4;
			sends("part");
			entered.n = 0;
			EXPECT_EQ(pthread_create(&t, NULL, makes_call, &c), 0);
			while (left > 0)
				EXPECT_EQ(ioctl(ends[0], FIONREAD, &left), 0);
			EXPECT_EQ(pthread_kill(t, SIGUSR1), 0);
			gives(t, &c, "part");
		})
}

TEST(a_handler_without_a_part_restarts_it_or_not)
{
	for (int i = 0; i < 2; i++) {
		handle(SIGUSR1, i ? SA_RESTART : 0);
		EACH({
			t = begins(&c);
			handled.n = 0;
			if (i) {
				interrupt(t, SIGUSR1, &handled, 1);
				settle();
				EXPECT_EQ(returned.n, 0);
				sends("all of");
				settle();
				sends(" it.");
				gives(t, &c, "all of it.");
			} else {
				interrupt(t, SIGUSR1, &returned, 1);
				EXPECT_EQ(pthread_join(t, NULL), 0);
				EXPECT_EQ(c.result, -1);
				EXPECT_EQ(c.error, EINTR);
			}
		})
	}
}

/* Its time is that of the whole call. */
TEST(SO_RCVTIMEO_ends_it_with_a_part)
{
	EACH({
		struct timeval limit = { .tv_usec = 60000 };
		long since;
		EXPECT_EQ(setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
		TAKES_ABOUT(60, 12, FAILS(c.fn(), EAGAIN));
		entered.n = 0;
		since = now_ms();
		EXPECT_EQ(pthread_create(&t, NULL, makes_call, &c), 0);
		sends("pa");
		usleep(20000);
		sends("rt");
		EXPECT_EQ(pthread_join(t, NULL), 0);
		EXPECT(c.result == 2 || c.result == 4);
		EXPECT(took(since, 48));
	})
}

/* ---- cancellation ---- */

static void opens_tcp(struct wait *w)
{
	tcp_pair(w->fd);
}

static void opens_local(struct wait *w)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fd), 0);
}

static long takes_three(struct wait *w)
{
	char c[3];

	return recv(w->fd[0], c, 3, MSG_WAITALL);
}

static void feeds_in_parts(struct wait *w)
{
	EXPECT_EQ(send(w->fd[1], "a", 1, 0), 1);
	settle();
	EXPECT_EQ(w->returned.n, 0);
	EXPECT_EQ(send(w->fd[1], "bc", 2, 0), 2);
}

BLOCKS(waitall_tcp, .open = opens_tcp, .block = takes_three, .release = feeds_in_parts, .wants = 3,
       .how = RESTARTS)
BLOCKS(waitall_local, .open = opens_local, .block = takes_three, .release = feeds_in_parts,
       .wants = 3, .how = RESTARTS)

static void *is_cancelled(void *arg)
{
	makes_call(arg);
	while (arg)
		pthread_testcancel();
	return arg;
}

static void *is_not_cancelled(void *arg)
{
	EXPECT_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL), 0);
	return makes_call(arg);
}

/* If it is not ended at once then at the next point; not all will come. */
TEST(one_that_has_a_part_can_be_cancelled_unless_that_is_disabled)
{
	for (int i = 0; i < 20; i++)
		EACH({
			void *result;
			sends("12345");
			entered.n = 0;
			EXPECT_EQ(pthread_create(&t, NULL, is_cancelled, &c), 0);
			await(&entered, 1);
			if (i == 0)
				settle();
			EXPECT_EQ(pthread_cancel(t), 0);
			EXPECT_EQ(pthread_join(t, &result), 0);
			EXPECT(result == PTHREAD_CANCELED);
		})
	EACH({
		sends("12345");
		entered.n = returned.n = 0;
		EXPECT_EQ(pthread_create(&t, NULL, is_not_cancelled, &c), 0);
		await(&entered, 1);
		settle();
		EXPECT_EQ(pthread_cancel(t), 0);
		settle();
		EXPECT_EQ(returned.n, 0);
		sends("67890");
		gives(t, &c, "1234567890");
	})
}

/* ---- urgent data ---- */

TEST(it_ends_at_the_mark)
{
	for (int in_line = 0; in_line < 2; in_line++)
		EACH({
			int at_mark;
			char u;
			EXPECT_EQ(setsockopt(ends[0], SOL_SOCKET, SO_OOBINLINE, &in_line,
					     sizeof(in_line)),
				  0);
			t = has_part(&c, "part");
			EXPECT_EQ(send(ends[1], "!", 1, MSG_OOB), 1);
			gives(t, &c, "part");
			EXPECT_EQ(ioctl(ends[0], SIOCATMARK, &at_mark), 0);
			EXPECT_EQ(at_mark, 1);
			EXPECT_EQ(recv(ends[0], &u, 1, in_line ? 0 : MSG_OOB), 1);
			EXPECT_EQ(u, '!');
			/* With what stands before it. */
			t = has_part(&c, "AB");
			EXPECT_EQ(send(ends[1], "CD!", 3, MSG_OOB), 3);
			EXPECT_EQ(pthread_join(t, NULL), 0);
			EXPECT(c.result == 4 || (tcp && c.result == 2));
			EXPECT(memcmp(buf, "ABCD", (size_t)c.result) == 0);
		})
}

/* ---- descriptors ---- */

static void passes(const char *text, int fd)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .h = { CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS } };
	struct iovec v = { (void *)(uintptr_t)text, strlen(text) };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };

	memcpy(CMSG_DATA(&control.h), &fd, sizeof(fd));
	EXPECT_EQ(sendmsg(ends[1], &m, 0), strlen(text));
}

static int came;

static long with_room(void)
{
	union {
		struct cmsghdr h;
		char room[CMSG_SPACE(sizeof(int))];
	} control;
	struct iovec v = { buf, 10 };
	struct msghdr m = { .msg_iov = &v,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	long r = recvmsg(ends[0], &m, MSG_WAITALL);

	came = -1;
	if (r >= 0 && m.msg_controllen > 0)
		memcpy(&came, CMSG_DATA(&control.h), sizeof(came));
	return r;
}

TEST(descriptors_end_it_with_the_bytes_they_came_with)
{
	static long (*const local[])(void) = { in_recv, in_recvmsg, with_room };

	for (int i = 0; i < 6; i++) {
		struct call c = { .fn = local[i / 2] };
		pthread_t t;
		opens(false);
		/* In the first part, or after it. */
		if (i % 2) {
			t = has_part(&c, "12");
			passes("34", STDOUT_FILENO);
			gives(t, &c, "1234");
		} else {
			passes("1234", STDOUT_FILENO);
			EXPECT_EQ(c.fn(), 4);
		}
		if (c.fn == with_room) {
			EXPECT(came >= 0);
			EXPECT_EQ(close(came), 0);
		}
		sends("rest");
		EXPECT_EQ(recv(ends[0], buf, 10, 0), 4);
		closes();
	}
}

TEST(senders_that_are_told_apart_are_not_mixed)
{
	int on = 1;
	struct call c = { .fn = in_recv };
	pthread_t t;

	opens(false);
	EXPECT_EQ(setsockopt(ends[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	t = has_part(&c, "12");
	sends("3456789");
	settle();
	sends("0");
	gives(t, &c, "1234567890");
}

/* ---- other flags ---- */

TEST(what_one_looks_at_is_waited_for_by_TCP_only)
{
	EACH({
		sends("ab");
		if (!tcp)
			EXPECT_EQ(recv(ends[0], buf, 4, MSG_PEEK | MSG_WAITALL), 2);
		sends("cd");
		EXPECT_EQ(recv(ends[0], buf, 4, MSG_PEEK | MSG_WAITALL), 4);
		EXPECT_EQ(recv(ends[0], buf, 4, MSG_WAITALL), 4);
		EXPECT(memcmp(buf, "abcd", 4) == 0);
	})
}

static long thrown_away(void)
{
	return recv(ends[0], NULL, 10, MSG_WAITALL | MSG_TRUNC);
}

TEST(TCP_throws_away_what_it_is_told_to)
{
	struct call c = { .fn = thrown_away };
	pthread_t t;

	opens(true);
	t = has_part(&c, "123");
	sends("4567890abc");
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT_EQ(c.result, 10);
	EXPECT_EQ(recv(ends[0], buf, 3, MSG_WAITALL), 3);
	EXPECT(memcmp(buf, "abc", 3) == 0);
}

TEST(memory_that_is_not_there_is_told_only_without_a_part){ EACH({
	char *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	EXPECT_EQ(mprotect(page + PAGE, PAGE, PROT_NONE), 0);
	sends("abcdefgh");
	FAILS(recv(ends[0], page + PAGE, 8, MSG_WAITALL), EFAULT);
	t = 0;
	(void)t;
}) }

/* The flag is looked at when a call begins. */
TEST(O_NONBLOCK_ends_the_next_and_not_this_one){ EACH({
	t = has_part(&c, "12345");
	nonblocking(ends[0], true);
	sends("678");
	settle();
	EXPECT_EQ(returned.n, 0);
	sends("90");
	gives(t, &c, "1234567890");
	sends("x");
	EXPECT_EQ(c.fn(), 1);
	FAILS(c.fn(), EAGAIN);
}) }

TEST(it_goes_on_with_the_socket_it_began_with)
{
	EACH({
		int decoy[2];
		int twin = dup(ends[0]);
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, decoy), 0);
		EXPECT_EQ(send(decoy[1], "decoydecoy", 10, 0), 10);
		t = has_part(&c, "12345");
		EXPECT_EQ(dup2(decoy[0], ends[0]), ends[0]);
		close(twin);
		for (int i = 6; i <= 10; i++) {
			sends((char[2]){ (char)('0' + i % 10), 0 });
			settle();
		}
		gives(t, &c, "1234567890");
		EXPECT_EQ(recv(decoy[0], buf, 10, MSG_DONTWAIT), 10);
		close(decoy[0]);
		close(decoy[1]);
	})
}

/* ---- both at once, and much of it ---- */

enum { BYTES = 1 << 20 };

static char pattern(long at)
{
	return (char)(at * 7 + at / 251);
}

static void *pours(void *arg)
{
	static char junk[5000];

	for (long done = 0; done < BYTES;) {
		size_t n = (size_t)(1 + done * 31 % 4999);
		if (n > (size_t)(BYTES - done))
			n = (size_t)(BYTES - done);
		for (size_t i = 0; i < n; i++)
			junk[i] = pattern(done + (long)i);
		write_all(ends[1], junk, n);
		done += (long)n;
	}
	return arg;
}

TEST(much_comes_in_order)
{
	for (int tcp = 0; tcp < 2; tcp++) {
		static char all[BYTES];
		pthread_t t;
		opens(tcp);
		start(&t, 1, pours, NULL);
		for (long done = 0; done < BYTES; done += BYTES / 4)
			EXPECT_EQ(recv(ends[0], all + done, BYTES / 4, MSG_WAITALL), BYTES / 4);
		for (long i = 0; i < BYTES; i++)
			EXPECT_EQ(all[i], pattern(i));
		EXPECT_EQ(pthread_join(t, NULL), 0);
		closes();
	}
}
