/* What others do to a descriptor behind the back of who made it: by a second number, in a child,
 * at the other end of a message, by a raw call. A read then says so, natively and here. */
#include "common.h"

#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>

static int ends[2];

static long reads_nothing(void)
{
	char c;

	errno = 0;
	return read(ends[0], &c, 1) == -1 ? errno : 0;
}

static void *by_dup(void *arg)
{
	int fd = dup(ends[0]);

	nonblocking(fd, true);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	close(fd);
	return arg;
}

static void *by_dup2(void *arg)
{
	int fd = dup2(ends[0], 100);

	nonblocking(fd, true);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	close(fd);
	return arg;
}

static void *by_dup3(void *arg)
{
	int fd = dup3(ends[0], 101, O_CLOEXEC), on = 1;

	EXPECT_EQ(ioctl(fd, FIONBIO, &on), 0);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	close(fd);
	return arg;
}

static void *by_fcntl(void *arg)
{
	int fd = fcntl(ends[0], F_DUPFD, 50);

	nonblocking(fd, true);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	close(fd);
	return arg;
}

static void *by_a_raw_call(void *arg)
{
	EXPECT_EQ(syscall(SYS_fcntl, ends[0], F_SETFL, O_RDWR | O_NONBLOCK), 0);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	return arg;
}

static void *by_a_child(void *arg)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		nonblocking(ends[0], true);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	return arg;
}

static int makes_it_non_blocking(void *arg)
{
	nonblocking(*(int *)arg, true);
	return 0;
}

static void ended_well(pid_t pid)
{
	int status;

	EXPECT(pid > 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(reads_nothing(), EAGAIN);
}

static void *by_a_raw_child(void *arg)
{
	pid_t pid = (pid_t)syscall(SYS_fork);

	if (pid == 0)
		_exit(makes_it_non_blocking(&ends[0]));
	ended_well(pid);
	return arg;
}

static void *by_a_clone(void *arg)
{
	static char stack[65536] __attribute__((aligned(16)));

	ended_well(clone(makes_it_non_blocking, stack + sizeof(stack), SIGCHLD, &ends[0]));
	return arg;
}

static void *by_a_clone_in_its_place(void *arg)
{
	static char stack[65536] __attribute__((aligned(16)));

	ended_well(clone(makes_it_non_blocking, stack + sizeof(stack),
			 CLONE_VM | CLONE_VFORK | SIGCHLD, &ends[0]));
	return arg;
}

/* This program, as a command that does no more. */
__attribute__((constructor)) static void is_command(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], "--non-blocking") == 0) {
		nonblocking(atoi(argv[2]), true);
		_exit(0);
	}
}

static void *by_a_command(void *arg)
{
	char command[PATH_MAX + 50];

	snprintf(command, sizeof(command), "%s --non-blocking %d", program_invocation_name,
		 ends[0]);
	EXPECT_EQ(system(command), 0);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	return arg;
}

/* Puts fd into a message, and takes it out again under another number. */
static int passed_on(int fd)
{
	int s[2], got;
	char c = 'x', room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec v = { &c, 1 };
	struct msghdr m = {
		.msg_iov = &v, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)
	};
	struct cmsghdr *head = CMSG_FIRSTHDR(&m);

	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
	head->cmsg_level = SOL_SOCKET;
	head->cmsg_type = SCM_RIGHTS;
	head->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(head), &fd, sizeof(fd));
	EXPECT_EQ(sendmsg(s[0], &m, 0), 1);
	EXPECT_EQ(recvmsg(s[1], &m, 0), 1);
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(got));
	close(s[0]);
	close(s[1]);
	return got;
}

static void *by_a_message(void *arg)
{
	int fd = passed_on(ends[0]);

	nonblocking(fd, true);
	EXPECT_EQ(reads_nothing(), EAGAIN);
	close(fd);
	return arg;
}

static void *(*const ways[])(void *) = {
	by_dup,	      by_dup2,	    by_dup3,	    by_fcntl,	by_a_raw_call,		by_a_child,
	by_a_command, by_a_message, by_a_raw_child, by_a_clone, by_a_clone_in_its_place
};

static void each_way(void)
{
	on_thread(ways[0], NULL);
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		nonblocking(ends[0], false);
		ways[i](NULL);
		nonblocking(ends[0], false);
		on_thread(ways[i], NULL);
	}
	close(ends[0]);
	close(ends[1]);
	/* Each way once more, the first that happens to a new one. */
	for (size_t i = 0; i < sizeof(ways) / sizeof(*ways); i++) {
		EXPECT_EQ(pipe(ends), 0);
		on_thread(ways[i], NULL);
		close(ends[0]);
		close(ends[1]);
	}
}

TEST(a_pipe_made_non_blocking_by_others_says_EAGAIN)
{
	EXPECT_EQ(pipe(ends), 0);
	each_way();
}

TEST(a_socket_made_non_blocking_by_others_says_EAGAIN)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	each_way();
}

static void *reads_on_a_thread(void *arg)
{
	EXPECT_EQ(reads_nothing(), EAGAIN);
	return arg;
}

/* What was given away before there were threads: whoever has it changes it later. */
TEST(a_pipe_sent_before_there_were_threads_says_EAGAIN)
{
	int fd;

	EXPECT_EQ(pipe(ends), 0);
	fd = passed_on(ends[0]);
	nonblocking(fd, true);
	on_thread(reads_on_a_thread, NULL);
}

/* A number that a raw call has closed belongs to whatever comes next. */
TEST(a_number_closed_by_a_raw_call_is_forgotten)
{
	int fd;

	EXPECT_EQ(pipe(ends), 0);
	on_thread(by_dup, NULL);
	EXPECT_EQ(pipe(ends), 0);
	fd = ends[0];
	EXPECT_EQ(syscall(SYS_close, fd), 0);
	EXPECT_EQ(syscall(SYS_pipe2, ends, O_NONBLOCK), 0);
	EXPECT_EQ(ends[0], fd);
	EXPECT_EQ(reads_nothing(), EAGAIN);
}

/* Before there is a second thread, too. */
static void reused_as_non_blocking(int number)
{
	int fresh[2];

	EXPECT_EQ(syscall(SYS_pipe2, fresh, O_NONBLOCK), 0);
	if (fresh[0] != number) {
		EXPECT_EQ(dup2(fresh[0], number), number);
		close(fresh[0]);
	}
	close(ends[1]);
	ends[0] = number;
	ends[1] = fresh[1];
}

TEST(a_number_closed_before_there_were_threads_is_forgotten)
{
	for (int how = 0; how < 4; how++) {
		pid_t pid = fork();
		int status;
		if (pid != 0) {
			EXPECT_EQ(waitpid(pid, &status, 0), pid);
			EXPECT_EQ(status, 0);
			continue;
		}
		EXPECT_EQ(pipe(ends), 0);
		switch (how) {
		case 0:
			fclose(fdopen(ends[0], "r"));
			break;
		case 1:
			close_range((unsigned)ends[0], (unsigned)ends[0], 0);
			break;
		case 2:
			syscall(SYS_close, ends[0]);
			break;
		default:
			close(ends[0]);
		}
		reused_as_non_blocking(ends[0]);
		on_thread(reads_on_a_thread, NULL);
		_exit(0);
	}
}

/* ---- numbers that are large, and how much memory what is known of them takes ---- */

enum { LARGE = 4096 };

static void *answers(void *arg)
{
	char c = 0;

	EXPECT_EQ(read(((int *)arg)[0], &c, 1), 1);
	EXPECT_EQ(c, 'q');
	EXPECT_EQ(write(((int *)arg)[0], "a", 1), 1);
	return arg;
}

TEST(large_numbers_are_waited_on_changed_and_closed_as_small_ones)
{
	struct rlimit limit;
	pthread_t t[6];
	int fd[6][2];

	EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_max < 4 * LARGE)
		return;
	limit.rlim_cur = limit.rlim_max;
	EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
	for (int i = 0; i < 6; i++) {
		/* The last of one part of a table, and the first of the next. */
		int to = (i / 2 + 1) * LARGE - 1 + i % 2;
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
		EXPECT_EQ(dup2(ends[0], to), to);
		close(ends[0]);
		fd[i][0] = to;
		fd[i][1] = ends[1];
		pthread_create(&t[i], NULL, answers, fd[i]);
	}
	for (int i = 0; i < 6; i++) {
		char c = 0;
		EXPECT_EQ(write(fd[i][1], "q", 1), 1);
		EXPECT_EQ(read(fd[i][1], &c, 1), 1);
		EXPECT_EQ(c, 'a');
		pthread_join(t[i], NULL);
		ends[0] = fd[i][0];
		nonblocking(ends[0], true);
		EXPECT_EQ(reads_nothing(), EAGAIN);
		EXPECT_EQ(close(ends[0]), 0);
		EXPECT_EQ(reads_nothing(), EBADF);
		EXPECT_EQ(read(fd[i][1], &c, 1), 0);
		close(fd[i][1]);
	}
}

/* Such a limit is for those without CAP_IPC_LOCK. What is mapped counts, touched or not. */
TEST(eight_megabytes_are_enough_to_lock_a_small_program)
{
	struct rlimit limit = { 8 << 20, 8 << 20 };
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		if (setrlimit(RLIMIT_MEMLOCK, &limit) != 0 || (getuid() == 0 && setuid(65534) != 0))
			_exit(2);
		_exit(mlockall(MCL_CURRENT | MCL_FUTURE) != 0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
}

/* ---- shut down by another number ---- */

static struct event entered, shut;

/* Of datagrams: the end is told once, and who is not to wait finds nothing. */
static void *receives_to_the_end(void *number)
{
	char c;

	tick(&entered);
	EXPECT_EQ(recv((int)(long)number, &c, 1, 0), 1);
	tick(&entered);
	await(&shut, 1);
	EXPECT_EQ(recv((int)(long)number, &c, 1, 0), 0);
	return NULL;
}

TEST(datagrams_end_that_were_shut_down_by_another_number)
{
	struct sockaddr_in me = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_DGRAM, 0), number;
	socklen_t len = sizeof(me);
	pthread_t t;

	me.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	EXPECT_EQ(bind(fd, (struct sockaddr *)&me, len), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)&me, &len), 0);
	EXPECT_EQ(connect(fd, (struct sockaddr *)&me, len), 0);
	number = dup(fd);
	EXPECT_EQ(pthread_create(&t, NULL, receives_to_the_end, (void *)(long)number), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(send(fd, "x", 1, 0), 1);
	await(&entered, 2);
	EXPECT_EQ(shutdown(fd, SHUT_RD), 0);
	settle();
	tick(&shut);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
