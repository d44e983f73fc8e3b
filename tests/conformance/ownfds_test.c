/* A program that closes, asks for or replaces every number that may be a descriptor, while its
 * threads wait for some: natively nobody else has any. */
#include "common.h"

#include <fcntl.h>
#include <linux/close_range.h>
#include <sys/stat.h>
#include <sys/wait.h>

enum { READERS = 4, BYTES = 5, ABOVE = 24, END = 1100 };

/* Half of them come later. */
static int ends[2 * READERS][2];
static pthread_t readers[2 * READERS];
static struct event got;

static void *reads_all(void *arg)
{
	int fd = ends[(intptr_t)arg][0];
	char c;

	tick(&entered);
	while (read(fd, &c, 1) == 1)
		tick(&got);
	return NULL;
}

static void half_begins(int from)
{
	for (intptr_t i = from; i < from + READERS; i++) {
		EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
		EXPECT_EQ(pthread_create(&readers[i], NULL, reads_all, (void *)i), 0);
	}
	await(&entered, from + READERS);
	settle();
}

/* All that the program has is below ABOVE; some of what it was given may not be. */
static void begin(void)
{
	closefrom(3);
	half_begins(0);
	EXPECT(ends[READERS - 1][1] < ABOVE - 2 * READERS);
}

static void end(void)
{
	half_begins(READERS);
	for (int k = 1; k <= BYTES; k++) {
		for (int i = 0; i < 2 * READERS; i++)
			EXPECT_EQ(write(ends[i][1], "x", 1), 1);
		await(&got, k * 2 * READERS);
		settle();
	}
	for (int i = 0; i < 2 * READERS; i++)
		EXPECT_EQ(close(ends[i][1]), 0);
	for (int i = 0; i < 2 * READERS; i++)
		EXPECT_EQ(pthread_join(readers[i], NULL), 0);
}

TEST(readers_outlast_closefrom)
{
	begin();
	closefrom(ABOVE);
	EXPECT_EQ(close_range(ABOVE, ~0u, 0), 0);
	EXPECT_EQ(close_range(ABOVE, END, CLOSE_RANGE_CLOEXEC), 0);
	end();
}

TEST(readers_outlast_a_close_of_every_number)
{
	begin();
	for (int fd = ABOVE; fd < END; fd++) {
		FAILS(fcntl(fd, F_GETFD), EBADF);
		FAILS(dup2(fd, fd + 1), EBADF);
		FAILS(close(fd), EBADF);
	}
	end();
}

/* And what is put there is the program's alone, in a child, too. */
TEST(readers_outlast_what_is_put_in_every_place)
{
	char path[] = "/tmp/ownfds.XXXXXX";
	int fd, status;
	struct stat st;
	pid_t pid;

	begin();
	fd = mkstemp(path);
	EXPECT(fd >= 0);
	EXPECT_EQ(unlink(path), 0);
	EXPECT_EQ(fcntl(fd, F_SETFL, O_APPEND), 0);
	for (int to = ABOVE; to < END; to++)
		EXPECT_EQ(dup2(fd, to), to);
	end();
	EXPECT_EQ(fstat(fd, &st), 0);
	EXPECT_EQ(st.st_size, 0);
	pid = fork();
	EXPECT(pid >= 0);
	if (pid == 0) {
		for (int to = ABOVE; to < END; to++)
			EXPECT(fcntl(to, F_GETFD) >= 0);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
}
