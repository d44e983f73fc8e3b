/* Asynchronous writes of one descriptor are done in the order in which they were asked for, by a
 * thread that is not the first, too; and who asks finds errno as it was. */
#include "threads.h"

#include <aio.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WRITES = 200 };

static struct aiocb asked[WRITES];
static char bytes[WRITES];
static int fd;

/* What a call finds on its stack that looks at more than it was given. */
static __attribute__((noinline)) int litter(int value)
{
	volatile int on_stack[1000];

	for (int i = 0; i < 1000; i++)
		on_stack[i] = value;
	return on_stack[value % 1000];
}

static void await_all(void)
{
	for (int i = 0; i < WRITES; i++) {
		const struct aiocb *one[] = { &asked[i] };
		while (aio_error(&asked[i]) == EINPROGRESS)
			aio_suspend(one, 1, NULL);
		EXPECT(aio_return(&asked[i]) == 1);
	}
}

static void *writes(void *arg)
{
	for (int i = 0; i < WRITES; i++) {
		struct aiocb *list[] = { &asked[i] };
		bytes[i] = (char)i;
		memset(&asked[i], 0, sizeof(asked[i]));
		asked[i].aio_fildes = fd;
		asked[i].aio_buf = &bytes[i];
		asked[i].aio_nbytes = 1;
		asked[i].aio_lio_opcode = LIO_WRITE;
		asked[i].aio_sigevent.sigev_notify = SIGEV_NONE;
		(void)litter(i * 1000);
		errno = 0;
		if (arg)
			EXPECT(lio_listio(LIO_NOWAIT, list, 1, NULL) == 0);
		else
			EXPECT(aio_write(&asked[i]) == 0);
		EXPECT(errno == 0);
	}
	await_all();
	return NULL;
}

static void in_order(void *arg)
{
	char path[] = "/tmp/aio_test.XXXXXX", got[WRITES + 1];

	fd = mkstemp(path);
	EXPECT(fd >= 0 && unlink(path) == 0);
	EXPECT(fcntl(fd, F_SETFL, O_APPEND) == 0);
	(void)on_thread(writes, arg);
	EXPECT(pread(fd, got, sizeof(got), 0) == WRITES);
	EXPECT(memcmp(got, bytes, WRITES) == 0);
	close(fd);
}

TEST(writes_are_done_in_order)
{
	in_order(NULL);
}

TEST(writes_of_a_list_are_done_in_order)
{
	in_order(&fd);
}

/* ---- the first thread's locks in glibc are its own ---- */
static _Atomic int ended;

static void *writes_one_by_one(void *arg)
{
	FILE *file = tmpfile();

	for (int i = 0; i < 40 * WRITES; i++) {
		struct aiocb cb = { .aio_fildes = fileno(file), .aio_buf = bytes, .aio_nbytes = 1 };
		const struct aiocb *one[] = { &cb };
		cb.aio_sigevent.sigev_notify = SIGEV_NONE;
		EXPECT(aio_write(&cb) == 0);
		while (aio_error(&cb) == EINPROGRESS)
			aio_suspend(one, 1, NULL);
		EXPECT(aio_return(&cb) == 1);
	}
	fclose(file);
	ended++;
	return arg;
}

TEST(who_asks_is_taken_for_nobody_else)
{
	enum { WRITERS = 3 };
	const struct timespec at_once = { 0, 0 };
	const struct aiocb *none[] = { NULL };
	pthread_t t[WRITERS];

	fd = open("/dev/null", O_WRONLY);
	start(t, WRITERS, writes_one_by_one, NULL);
	while (ended < WRITERS) {
		aio_cancel(fd, NULL);
		aio_suspend(none, 1, &at_once);
	}
	join(t, WRITERS);
	close(fd);
}
