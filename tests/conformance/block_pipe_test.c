/* Calls that block on pipes and FIFOs. The same holds natively. */
#include "common.h"

#include <limits.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

/* ---- each call ---- */

static long reads(struct wait *w)
{
	char c[16] = "";
	long r = read(w->fd[0], c, sizeof(c));

	EXPECT(r != 1 || c[0] == 'x');
	return r;
}

static long reads_by_number(struct wait *w)
{
	char c[16] = "";
	long r = syscall(SYS_read, w->fd[0], c, sizeof(c));

	EXPECT(r != 1 || c[0] == 'x');
	return r;
}

static long reads_vector(struct wait *w)
{
	char a, b;
	struct iovec v[2] = { { &a, 1 }, { &b, 1 } };

	return readv(w->fd[0], v, 2);
}

static long reads_vector_anywhere(struct wait *w)
{
	char a, b;
	struct iovec v[2] = { { &a, 1 }, { &b, 1 } };

	return preadv2(w->fd[0], v, 2, -1, 0);
}

BLOCKS(read, .open = opens_pipe, .block = reads, .release = feeds_pipe, .wants = 1, .how = RESTARTS)
BLOCKS_UNCANCELLED(SYS_read_, .open = opens_pipe, .block = reads_by_number, .release = feeds_pipe,
		   .wants = 1, .how = RESTARTS)
BLOCKS(readv, .open = opens_pipe, .block = reads_vector, .release = feeds_pipe, .wants = 1,
       .how = RESTARTS)
BLOCKS(preadv2, .open = opens_pipe, .block = reads_vector_anywhere, .release = feeds_pipe,
       .wants = 1, .how = RESTARTS)

static long writes(struct wait *w)
{
	return write(w->fd[1], "y", 1);
}

static long writes_by_number(struct wait *w)
{
	return syscall(SYS_write, w->fd[1], "y", 1);
}

static long writes_vector(struct wait *w)
{
	struct iovec v[2] = { { "ab", 2 }, { "c", 1 } };

	return writev(w->fd[1], v, 2);
}

static long writes_vector_anywhere(struct wait *w)
{
	struct iovec v[2] = { { "ab", 2 }, { "c", 1 } };

	return pwritev2(w->fd[1], v, 2, -1, 0);
}

BLOCKS(write, .open = opens_full_pipe, .block = writes, .release = drains_pipe, .wants = 1,
       .how = RESTARTS)
BLOCKS_UNCANCELLED(SYS_write_, .open = opens_full_pipe, .block = writes_by_number,
		   .release = drains_pipe, .wants = 1, .how = RESTARTS)
BLOCKS(writev, .open = opens_full_pipe, .block = writes_vector, .release = drains_pipe, .wants = 3,
       .how = RESTARTS)
BLOCKS(pwritev2, .open = opens_full_pipe, .block = writes_vector_anywhere, .release = drains_pipe,
       .wants = 3, .how = RESTARTS)

/* The other end of a splice, a tee: a pipe of its own with one byte in it. */
static void opens_full_and_other(struct wait *w)
{
	int other[2];

	opens_full_pipe(w);
	EXPECT_EQ(pipe(other), 0);
	EXPECT_EQ(write(other[1], "z", 1), 1);
	w->more = other[0];
}

static void opens_empty_and_other(struct wait *w)
{
	int other[2];

	opens_pipe(w);
	EXPECT_EQ(pipe(other), 0);
	w->more = other[1];
}

static void opens_full_and_file(struct wait *w)
{
	FILE *file = tmpfile();

	opens_full_pipe(w);
	EXPECT(file != NULL);
	w->more = fileno(file);
	EXPECT_EQ(write(w->more, "file", 4), 4);
	EXPECT_EQ(lseek(w->more, 0, SEEK_SET), 0);
}

static long splices_out(struct wait *w)
{
	return splice(w->more, NULL, w->fd[1], NULL, 1, 0);
}

static long splices_in(struct wait *w)
{
	return splice(w->fd[0], NULL, w->more, NULL, 10, 0);
}

static long tees_out(struct wait *w)
{
	return tee(w->more, w->fd[1], 1, 0);
}

static long tees_in(struct wait *w)
{
	return tee(w->fd[0], w->more, 10, 0);
}

static long splices_memory(struct wait *w)
{
	static char page[4096];
	struct iovec v = { page, 10 };

	return vmsplice(w->fd[1], &v, 1, 0);
}

static long sends_file(struct wait *w)
{
	return sendfile(w->fd[1], w->more, NULL, 4);
}

BLOCKS(splice_to_a_pipe, .open = opens_full_and_other, .block = splices_out, .release = drains_pipe,
       .wants = 1, .how = RESTARTS)
BLOCKS(splice_from_a_pipe, .open = opens_empty_and_other, .block = splices_in,
       .release = feeds_pipe, .wants = 1, .how = RESTARTS)
BLOCKS(tee_to_a_pipe, .open = opens_full_and_other, .block = tees_out, .release = drains_pipe,
       .wants = 1, .how = RESTARTS)
BLOCKS(tee_from_a_pipe, .open = opens_empty_and_other, .block = tees_in, .release = feeds_pipe,
       .wants = 1, .how = RESTARTS)
BLOCKS(vmsplice, .open = opens_full_pipe, .block = splices_memory, .release = drains_pipe,
       .wants = 10, .how = RESTARTS)
BLOCKS_UNCANCELLED(sendfile, .open = opens_full_and_file, .block = sends_file,
		   .release = drains_pipe, .wants = 4, .how = RESTARTS)

/* ---- FIFOs: their open blocks too ---- */

static void makes_fifo(struct wait *w)
{
	snprintf(w->path, sizeof(w->path), "/tmp/heddle-fifo-%d-%p", (int)getpid(), (void *)w);
	unlink(w->path);
	EXPECT_EQ(mkfifo(w->path, 0600), 0);
}

static long opens_to_read(struct wait *w)
{
	return w->fd[0] = open(w->path, O_RDONLY);
}

static long opens_to_write(struct wait *w)
{
	return w->fd[1] = openat(AT_FDCWD, w->path, O_WRONLY);
}

/* An open for both never blocks, and is what the others wait for. */
static void opens_for_both(struct wait *w)
{
	w->more = open(w->path, O_RDWR);
	EXPECT(w->more >= 0);
	await(&w->returned, 1);
	unlink(w->path);
}

BLOCKS(open_of_a_fifo_to_read, .open = makes_fifo, .block = opens_to_read,
       .release = opens_for_both, .wants = ANY, .how = RESTARTS)
BLOCKS(open_of_a_fifo_to_write, .open = makes_fifo, .block = opens_to_write,
       .release = opens_for_both, .wants = ANY, .how = RESTARTS)

static void opens_fifo(struct wait *w)
{
	makes_fifo(w);
	w->fd[0] = w->fd[1] = open(w->path, O_RDWR);
	EXPECT(w->fd[0] >= 0);
	unlink(w->path);
}

BLOCKS(read_of_a_fifo, .open = opens_fifo, .block = reads, .release = feeds_pipe, .wants = 1,
       .how = RESTARTS)

static void *opens_and_counts(void *arg)
{
	char buf[10];
	int fd = open(arg, O_RDONLY);

	EXPECT(fd >= 0);
	tick(&entered);
	/* The other's end is this one's end of file. */
	EXPECT_EQ(read(fd, buf, sizeof(buf)), 3);
	EXPECT_EQ(read(fd, buf, sizeof(buf)), 0);
	EXPECT_EQ(close(fd), 0);
	return NULL;
}

TEST(the_two_ends_of_a_fifo_meet_and_part)
{
	struct wait w = { .more = -1 };

	makes_fifo(&w);
	FAILS(open(w.path, O_WRONLY | O_NONBLOCK), ENXIO);
	for (int i = 0; i < 20; i++) {
		pthread_t t;
		int fd;
		EXPECT_EQ(pthread_create(&t, NULL, opens_and_counts, w.path), 0);
		fd = open(w.path, O_WRONLY);
		EXPECT(fd >= 0);
		EXPECT_EQ(fcntl(fd, F_GETFL) & O_NONBLOCK, 0);
		EXPECT_EQ(write(fd, "abc", 3), 3);
		EXPECT_EQ(close(fd), 0);
		EXPECT_EQ(pthread_join(t, NULL), 0);
	}
	unlink(w.path);
}

/* ---- what comes out is what went in ---- */

enum { MIB = 1 << 20 };
static int ends[2];
static unsigned char sent[MIB], got[MIB];

static void *writes_a_mib(void *arg)
{
	errno = KEPT;
	EXPECT_EQ(write(ends[1], sent, MIB), MIB);
	EXPECT_EQ(errno, KEPT);
	return arg;
}

static void *writes_a_mib_in_pieces(void *arg)
{
	struct iovec v[16];

	for (int i = 0; i < 16; i++)
		v[i] = (struct iovec){ sent + i * (MIB / 16), MIB / 16 };
	EXPECT_EQ(writev(ends[1], v, 16), MIB);
	return arg;
}

static void fill_pattern(void)
{
	for (int i = 0; i < MIB; i++)
		sent[i] = (unsigned char)(i * 7 + i / 251);
}

static void passes_whole(void *(*fn)(void *))
{
	pthread_t t;

	fill_pattern();
	memset(got, 0, MIB);
	EXPECT_EQ(pthread_create(&t, NULL, fn, NULL), 0);
	read_all(ends[0], got, MIB);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT(memcmp(sent, got, MIB) == 0);
}

TEST(one_write_puts_a_whole_mib_through_a_pipe)
{
	EXPECT_EQ(pipe(ends), 0);
	passes_whole(writes_a_mib);
	passes_whole(writes_a_mib_in_pieces);
	EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
}

TEST(one_write_puts_a_whole_mib_through_a_socket)
{
	EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	passes_whole(writes_a_mib);
	passes_whole(writes_a_mib_in_pieces);
	EXPECT_EQ(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
}

static void *writes_a_mib_interrupted(void *arg)
{
	long r = write(ends[1], sent, MIB);

	EXPECT(r > 0 && r <= MIB);
	tick(&returned);
	*(long *)arg = r;
	return NULL;
}

/* A handler without SA_RESTART ends a write that has begun with what went in so far. */
/* Restarted or not: what was written cannot be written again. */
static void an_interrupted_write(int flags)
{
	long before = 0;
	pthread_t t;

	fill_pattern();
	handle(SIGUSR1, flags);
	returned.n = 0;
	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pthread_create(&t, NULL, writes_a_mib_interrupted, &before), 0);
	/* Once something is in, a handler cannot come too early. */
	read_all(ends[0], got, 1);
	interrupt(t, SIGUSR1, &returned, 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	EXPECT(before < MIB);
	EXPECT_EQ(close(ends[1]), 0);
	read_all(ends[0], got + 1, (size_t)before - 1);
	EXPECT_EQ(read(ends[0], got, 0), 0);
	EXPECT(memcmp(sent, got, (size_t)before) == 0);
	EXPECT_EQ(read(ends[0], got, 1), 0);
	close(ends[0]);
}

TEST(an_interrupted_write_says_how_much_it_wrote)
{
	an_interrupted_write(0);
	an_interrupted_write(SA_RESTART);
}

/* ---- many on one pipe ---- */

struct record {
	int writer, number;
	char fill[500];
};

enum { WRITERS = 6, RECORDS = 200 };

static void *writes_records(void *arg)
{
	struct record r = { .writer = (int)(long)arg };

	memset(r.fill, 'a' + r.writer, sizeof(r.fill));
	for (r.number = 0; r.number < RECORDS; r.number++)
		EXPECT_EQ(write(ends[1], &r, sizeof(r)), sizeof(r));
	return NULL;
}

TEST(writes_up_to_PIPE_BUF_are_not_mixed)
{
	static int next[WRITERS];
	pthread_t t[WRITERS];
	struct record r;

	EXPECT(sizeof(r) <= PIPE_BUF);
	EXPECT_EQ(pipe(ends), 0);
	start_numbered(t, WRITERS, writes_records);
	for (int i = 0; i < WRITERS * RECORDS; i++) {
		read_all(ends[0], &r, sizeof(r));
		EXPECT(r.writer >= 0 && r.writer < WRITERS);
		EXPECT_EQ(r.number, next[r.writer]++);
		for (size_t k = 0; k < sizeof(r.fill); k++)
			EXPECT_EQ(r.fill[k], 'a' + r.writer);
	}
	join(t, WRITERS);
	EXPECT_EQ(close(ends[1]), 0);
	EXPECT_EQ(read(ends[0], &r, sizeof(r)), 0);
}

static _Atomic int taken[256];
static struct event alltaken;

static void *reads_one_each(void *arg)
{
	unsigned char c;

	for (;;) {
		ssize_t r = read(ends[0], &c, 1);
		if (r == 0)
			return arg;
		EXPECT_EQ(r, 1);
		atomic_fetch_add(&taken[c], 1);
		tick(&alltaken);
	}
}

TEST(of_many_readers_each_byte_goes_to_one_and_all_see_the_end)
{
	pthread_t t[WAITERS];

	EXPECT_EQ(pipe(ends), 0);
	start(t, WAITERS, reads_one_each, NULL);
	for (int i = 0; i < 256 * 4; i++) {
		unsigned char c = (unsigned char)i;
		EXPECT_EQ(write(ends[1], &c, 1), 1);
		if (i % 64 == 63)
			await(&alltaken, i + 1);
	}
	EXPECT_EQ(close(ends[1]), 0);
	join(t, WAITERS);
	for (int i = 0; i < 256; i++)
		EXPECT_EQ(taken[i], 4);
}

static void *writes_until_broken(void *arg)
{
	tick(&entered);
	FAILS(write(ends[1], "12", 2), EPIPE);
	return arg;
}

TEST(a_writer_whose_readers_go_away_gets_EPIPE_and_SIGPIPE)
{
	pthread_t t[4];

	handle(SIGPIPE, SA_RESTART);
	EXPECT_EQ(pipe(ends), 0);
	fill(ends[1]);
	start(t, 4, writes_until_broken, NULL);
	await(&entered, 4);
	settle();
	EXPECT_EQ(handled.n, 0);
	EXPECT_EQ(close(ends[0]), 0);
	join(t, 4);
	EXPECT_EQ(handled.n, 4);
	signal(SIGPIPE, SIG_IGN);
	FAILS(write(ends[1], "x", 1), EPIPE);
}

static void *dies_of_sigpipe(void *arg)
{
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	return arg;
}

TEST(SIGPIPE_ends_the_process)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		EXPECT_EQ(pipe(ends), 0);
		close(ends[0]);
		on_thread(dies_of_sigpipe, NULL);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT(WIFSIGNALED(status));
	EXPECT_EQ(WTERMSIG(status), SIGPIPE);
}

/* ---- nothing, and not now ---- */

static void *does_not_wait(void *arg)
{
	struct iovec none = { NULL, 0 };
	char c[2];
	int fd, on = 1, flags, nread;

	EXPECT_EQ(pipe(ends), 0);
	/* Nothing is asked for: no waiting, even on an empty or a full pipe. */
	EXPECT_EQ(read(ends[0], c, 0), 0);
	EXPECT_EQ(read(ends[0], NULL, 0), 0);
	EXPECT_EQ(readv(ends[0], &none, 1), 0);
	EXPECT_EQ(readv(ends[0], &none, 0), 0);
	fill(ends[1]);
	EXPECT_EQ(write(ends[1], c, 0), 0);
	EXPECT_EQ(writev(ends[1], &none, 1), 0);
	drain(ends[0]);

	/* Refused at once, by the descriptor's own flag or that of its twin. */
	flags = fcntl(ends[0], F_GETFL);
	EXPECT_EQ(flags & O_NONBLOCK, 0);
	fd = dup(ends[0]);
	nonblocking(fd, true);
	EXPECT_EQ(fcntl(ends[0], F_GETFL), flags | O_NONBLOCK);
	FAILS(read(ends[0], c, 1), EAGAIN);
	FAILS(readv(ends[0], &(struct iovec){ c, 1 }, 1), EAGAIN);
	FAILS(splice(ends[0], NULL, ends[1], NULL, 1, 0), EINVAL);
	nonblocking(ends[0], false);
	EXPECT_EQ(fcntl(fd, F_GETFL), flags);
	EXPECT_EQ(ioctl(ends[0], FIONBIO, &on), 0);
	FAILS(read(fd, c, 1), EAGAIN);
	on = 0;
	EXPECT_EQ(ioctl(fd, FIONBIO, &on), 0);
	EXPECT_EQ(fcntl(ends[0], F_GETFL), flags);
	/* Not every kernel can ask a pipe so. */
	EXPECT_EQ(preadv2(fd, &(struct iovec){ c, 1 }, 1, -1, RWF_NOWAIT), -1);
	EXPECT(errno == EAGAIN || errno == EOPNOTSUPP);
	nonblocking(ends[1], true);
	fill(ends[1]);
	nonblocking(ends[1], true);
	FAILS(write(ends[1], c, 1), EAGAIN);
	EXPECT_EQ(ioctl(ends[0], FIONREAD, &nread), 0);
	/* 64 KiB, but less where the user has many pipes. */
	EXPECT_EQ(nread, fcntl(ends[0], F_GETPIPE_SZ));
	/* More than fits, at once: what fits goes in. */
	EXPECT_EQ(read(ends[0], got, 4096), 4096);
	EXPECT_EQ(write(ends[1], sent, 8192), 4096);
	close(fd);
	return arg;
}

TEST(nothing_to_do_and_not_now_come_back_at_once)
{
	twice(does_not_wait);
}

/* The flag is looked at when a call begins: one that is blocked stays so. */
static void *reads_blocking(void *arg)
{
	char c;

	tick(&entered);
	EXPECT_EQ(read(ends[0], &c, 1), 1);
	return arg;
}

TEST(a_read_that_blocks_is_not_ended_by_O_NONBLOCK_before_data_come)
{
	pthread_t t;
	char c;

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(pthread_create(&t, NULL, reads_blocking, NULL), 0);
	await(&entered, 1);
	settle();
	nonblocking(ends[0], true);
	FAILS(read(ends[0], &c, 1), EAGAIN);
	EXPECT_EQ(write(ends[1], "x", 1), 1);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}

TEST(copy_file_range_copies_and_moves_both_positions)
{
	FILE *a = tmpfile(), *b = tmpfile();
	pthread_t t;
	char buf[8] = "";

	EXPECT_EQ(pthread_create(&t, NULL, counts, NULL), 0);
	EXPECT_EQ(write(fileno(a), "0123456789", 10), 10);
	EXPECT_EQ(lseek(fileno(a), 2, SEEK_SET), 2);
	EXPECT_EQ(copy_file_range(fileno(a), NULL, fileno(b), NULL, 5, 0), 5);
	EXPECT_EQ(lseek(fileno(a), 0, SEEK_CUR), 7);
	EXPECT_EQ(lseek(fileno(b), 0, SEEK_CUR), 5);
	EXPECT_EQ(pread(fileno(b), buf, 8, 0), 5);
	EXPECT(memcmp(buf, "23456", 5) == 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
}
