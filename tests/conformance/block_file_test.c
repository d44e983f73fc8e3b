/* Locks of files, regular files, and what is not of any kind. The same holds natively. */
#include "common.h"

#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>

/* ---- locks: the other holder is a process or another description ---- */

static int temporary(char *path, size_t size)
{
	static _Atomic int next;
	int fd;

	snprintf(path, size, "/tmp/heddle-file-%d-%d", (int)getpid(), next++);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	EXPECT(fd >= 0);
	return fd;
}

static void opens_locked(struct wait *w)
{
	w->fd[0] = temporary(w->path, sizeof(w->path));
	w->fd[1] = open(w->path, O_RDWR | O_CLOEXEC);
	EXPECT_EQ(flock(w->fd[1], LOCK_EX), 0);
	unlink(w->path);
}

static long in_flock(struct wait *w)
{
	return flock(w->fd[0], LOCK_EX);
}

static void unlocks(struct wait *w)
{
	EXPECT_EQ(flock(w->fd[1], LOCK_UN), 0);
}

BLOCKS_UNCANCELLED(flock, .open = opens_locked, .block = in_flock, .release = unlocks, .wants = 0,
		   .how = RESTARTS)

static const struct flock whole = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
static const struct flock none = { .l_type = F_UNLCK, .l_whence = SEEK_SET };

static void opens_ofd_locked(struct wait *w)
{
	struct flock lock = whole;

	w->fd[0] = temporary(w->path, sizeof(w->path));
	w->fd[1] = open(w->path, O_RDWR | O_CLOEXEC);
	EXPECT_EQ(fcntl(w->fd[1], F_OFD_SETLK, &lock), 0);
	unlink(w->path);
}

static long in_ofd_setlkw(struct wait *w)
{
	struct flock lock = whole;

	return fcntl(w->fd[0], F_OFD_SETLKW, &lock);
}

static void ofd_unlocks(struct wait *w)
{
	struct flock lock = none;

	EXPECT_EQ(fcntl(w->fd[1], F_OFD_SETLK, &lock), 0);
}

/* A lock of a process stands against the description's as well. */
static long in_setlkw(struct wait *w)
{
	struct flock lock = whole;

	return fcntl(w->fd[0], F_SETLKW, &lock);
}

static long in_lockf(struct wait *w)
{
	return lockf(w->fd[0], F_LOCK, 0);
}

BLOCKS(fcntl_F_OFD_SETLKW, .open = opens_ofd_locked, .block = in_ofd_setlkw, .release = ofd_unlocks,
       .wants = 0, .how = RESTARTS)
BLOCKS(fcntl_F_SETLKW, .open = opens_ofd_locked, .block = in_setlkw, .release = ofd_unlocks,
       .wants = 0, .how = RESTARTS)
BLOCKS(lockf, .open = opens_ofd_locked, .block = in_lockf, .release = ofd_unlocks, .wants = 0,
       .how = RESTARTS)

/* Locks of a process are its threads' together: no thread waits for another's. */
static void *locks_too(void *arg)
{
	struct flock lock = whole;

	EXPECT_EQ(fcntl(*(int *)arg, F_SETLKW, &lock), 0);
	return NULL;
}

TEST(threads_of_a_process_share_its_locks_and_another_waits_for_them)
{
	char path[64];
	int fd = temporary(path, sizeof(path)), status, p[2];
	struct flock lock = whole;
	pid_t pid;
	char c;

	EXPECT_EQ(pipe(p), 0);
	EXPECT_EQ(fcntl(fd, F_SETLKW, &lock), 0);
	on_thread(locks_too, &fd);
	pid = fork();
	if (pid == 0) {
		FAILS(fcntl(fd, F_SETLK, &lock), EAGAIN);
		EXPECT_EQ(write(p[1], "x", 1), 1);
		EXPECT_EQ(fcntl(fd, F_SETLKW, &lock), 0);
		_exit(7);
	}
	EXPECT_EQ(read(p[0], &c, 1), 1);
	await_sleep_of(pid, 0);
	EXPECT_EQ(waitpid(pid, &status, WNOHANG), 0);
	lock = none;
	EXPECT_EQ(fcntl(fd, F_SETLK, &lock), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(WEXITSTATUS(status), 7);
	unlink(path);
}

/* The kernel sees who waits for whom, of processes. */
TEST(a_deadlock_of_file_locks_is_refused)
{
	char path[64];
	int fd = temporary(path, sizeof(path)), p[2], status;
	struct flock a = { .l_type = F_WRLCK, .l_start = 0, .l_len = 1 };
	struct flock b = { .l_type = F_WRLCK, .l_start = 1, .l_len = 1 };
	pid_t pid;
	char c;

	unlink(path);
	on_thread(counts, NULL);
	EXPECT_EQ(pipe(p), 0);
	EXPECT_EQ(fcntl(fd, F_SETLK, &a), 0);
	pid = fork();
	if (pid == 0) {
		EXPECT_EQ(fcntl(fd, F_SETLK, &b), 0);
		EXPECT_EQ(write(p[1], "x", 1), 1);
		/* One of the two is refused, and ends; so the other goes on. */
		int r = fcntl(fd, F_SETLKW, &a);
		EXPECT(r == 0 || errno == EDEADLK);
		_exit(r == 0 ? 1 : 2);
	}
	EXPECT_EQ(read(p[0], &c, 1), 1);
	int r = fcntl(fd, F_SETLKW, &b);
	EXPECT(r == 0 || errno == EDEADLK);
	a.l_type = F_UNLCK;
	a.l_len = 2;
	EXPECT_EQ(fcntl(fd, F_SETLK, &a), 0);
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(WEXITSTATUS(status), r == 0 ? 2 : 1);
}

/* ---- regular files ---- */

enum { BLOCK = 512, BLOCKS_EACH = 100, WRITERS = 6 };
static int shared;

static void *appends(void *arg)
{
	char block[BLOCK];

	memset(block, 'a' + (int)(long)arg, BLOCK);
	for (int i = 0; i < BLOCKS_EACH; i++) {
		EXPECT_EQ(write(shared, block, BLOCK), BLOCK);
		if (i % 50 == 0)
			EXPECT_EQ(fdatasync(shared), 0);
	}
	return NULL;
}

TEST(blocks_appended_by_many_are_whole)
{
	char path[64], block[BLOCK];
	int seen[WRITERS] = { 0 };
	pthread_t t[WRITERS];

	close(temporary(path, sizeof(path)));
	shared = open(path, O_RDWR | O_APPEND);
	start_numbered(t, WRITERS, appends);
	join(t, WRITERS);
	EXPECT_EQ(lseek(shared, 0, SEEK_SET), 0);
	for (int i = 0; i < WRITERS * BLOCKS_EACH; i++) {
		EXPECT_EQ(read(shared, block, BLOCK), BLOCK);
		for (int k = 1; k < BLOCK; k++)
			EXPECT_EQ(block[k], block[0]);
		EXPECT(block[0] >= 'a' && block[0] < 'a' + WRITERS);
		seen[block[0] - 'a']++;
	}
	EXPECT_EQ(read(shared, block, BLOCK), 0);
	for (int i = 0; i < WRITERS; i++)
		EXPECT_EQ(seen[i], BLOCKS_EACH);
	unlink(path);
}

/* One description, one position: what one reads no other does. */
static _Atomic int taken[1000];

static void *reads_on(void *arg)
{
	int n;

	while (read(shared, &n, sizeof(n)) == sizeof(n))
		atomic_fetch_add(&taken[n], 1);
	return arg;
}

TEST(readers_of_one_description_share_its_position)
{
	char path[64];
	pthread_t t[4];

	shared = temporary(path, sizeof(path));
	unlink(path);
	for (int i = 0; i < 1000; i++)
		EXPECT_EQ(write(shared, &i, sizeof(i)), sizeof(i));
	EXPECT_EQ(lseek(shared, 0, SEEK_SET), 0);
	start(t, 4, reads_on, NULL);
	join(t, 4);
	for (int i = 0; i < 1000; i++)
		EXPECT_EQ(taken[i], 1);
	EXPECT_EQ(lseek(shared, 0, SEEK_CUR), 1000 * sizeof(int));
}

static void *keeps_positions(void *arg)
{
	char path[64], moved[80], buf[16] = "";
	int fd = temporary(path, sizeof(path)), twin, other;
	struct iovec v[2] = { { buf, 2 }, { buf + 2, 3 } };
	struct stat st;
	struct statfs fs;

	errno = KEPT;
	EXPECT_EQ(write(fd, "0123456789", 10), 10);
	EXPECT_EQ(pread(fd, buf, 4, 2), 4);
	EXPECT(memcmp(buf, "2345", 4) == 0);
	EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 10);
	EXPECT_EQ(pwrite(fd, "ab", 2, 0), 2);
	EXPECT_EQ(lseek(fd, 1, SEEK_SET), 1);
	EXPECT_EQ(readv(fd, v, 2), 5);
	EXPECT(memcmp(buf, "b2345", 5) == 0);
	EXPECT_EQ(preadv(fd, v, 2, 5), 5);
	EXPECT(memcmp(buf, "56789", 5) == 0);
	EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 6);
	EXPECT_EQ(preadv2(fd, v, 2, -1, 0), 4);
	EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 10);
	EXPECT_EQ(preadv2(fd, v, 2, 0, 0), 5);
	EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 10);
	EXPECT_EQ(pwritev(fd, v, 2, 8), 5);
	EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 10);
	EXPECT_EQ(pwritev2(fd, v, 2, -1, 0), 5);
	EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 15);
	twin = dup(fd);
	EXPECT_EQ(lseek(twin, 3, SEEK_SET), 3);
	EXPECT_EQ(read(fd, buf, 1), 1);
	EXPECT_EQ(lseek(twin, 0, SEEK_CUR), 4);
	other = open(path, O_RDONLY);
	EXPECT_EQ(read(other, buf, 0), 0);
	EXPECT_EQ(read(other, buf, 3), 3);
	EXPECT_EQ(lseek(fd, 0, SEEK_CUR), 4);
	EXPECT_EQ(errno, KEPT);
	EXPECT_EQ(fsync(fd), 0);
	EXPECT_EQ(fdatasync(fd), 0);
	EXPECT_EQ(sync_file_range(fd, 0, 10, SYNC_FILE_RANGE_WRITE), 0);
	EXPECT_EQ(posix_fallocate(fd, 0, 100), 0);
	EXPECT_EQ(ftruncate(fd, 8), 0);
	EXPECT_EQ(fstat(fd, &st), 0);
	EXPECT_EQ(st.st_size, 8);
	EXPECT_EQ(stat(path, &st), 0);
	EXPECT_EQ(fstatfs(fd, &fs), 0);
	FAILS(write(other, "x", 1), EBADF);
	FAILS(lseek(fd, -1, SEEK_SET), EINVAL);
	FAILS(pread(fd, buf, 1, -1), EINVAL);
	snprintf(moved, sizeof(moved), "%s-moved", path);
	EXPECT_EQ(rename(path, moved), 0);
	FAILS(open(path, O_RDONLY), ENOENT);
	FAILS(open(path, O_RDONLY | O_DIRECTORY), ENOENT);
	EXPECT_EQ(unlink(moved), 0);
	EXPECT_EQ(close(other), 0);
	EXPECT_EQ(close(twin), 0);
	EXPECT_EQ(close(fd), 0);
	return arg;
}

TEST(files_keep_their_positions_and_sizes)
{
	twice(keeps_positions);
}

/* ---- calls of no descriptor, calls of no number ---- */

static void *calls_by_number(void *arg)
{
	char random[64] = "", again[64] = "", buf[8] = "";
	int p[2];

	FAILS(syscall(-1), ENOSYS);
	FAILS(syscall(100000), ENOSYS);
	FAILS(syscall(1 << 29), ENOSYS);
	errno = KEPT;
	EXPECT_EQ(syscall(SYS_getpid), getpid());
	EXPECT_EQ(syscall(SYS_getppid), getppid());
	EXPECT_EQ(getrandom(random, sizeof(random), 0), sizeof(random));
	EXPECT_EQ(syscall(SYS_getrandom, again, sizeof(again), 0), sizeof(again));
	EXPECT(memcmp(random, again, sizeof(random)) != 0);
	EXPECT_EQ(getentropy(again, sizeof(again)), 0);
	EXPECT_EQ(pipe(p), 0);
	EXPECT_EQ(syscall(SYS_write, p[1], "abc", 3), 3);
	EXPECT_EQ(syscall(SYS_read, p[0], buf, sizeof(buf)), 3);
	EXPECT(memcmp(buf, "abc", 3) == 0);
	EXPECT_EQ(syscall(SYS_close, p[0]), 0);
	EXPECT_EQ(syscall(SYS_close, p[1]), 0);
	EXPECT_EQ(errno, KEPT);
	FAILS(syscall(SYS_read, p[0], buf, sizeof(buf)), EBADF);
	FAILS(getrandom(random, 4, 0xff00), EINVAL);
	/* Six arguments, all of which arrive. */
	char *map = (char *)syscall(SYS_mmap, NULL, 4096, 3, 0x22, -1, 0);
	EXPECT(map != (char *)-1);
	map[0] = 1;
	EXPECT_EQ(syscall(SYS_munmap, map, 4096), 0);
	return arg;
}

TEST(calls_by_number_are_the_kernel_s)
{
	twice(calls_by_number);
}
