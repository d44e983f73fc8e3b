/* stdio: glibc blocks inside itself, where nobody can stand before the call. The same holds
 * natively. */
#include "common.h"

#include <sys/stat.h>
#include <wchar.h>

/* ---- each call, on a pipe ---- */

static void opens_reader(struct wait *w)
{
	EXPECT_EQ(pipe(w->fd), 0);
	w->own = fdopen(w->fd[0], "r");
	EXPECT(w->own != NULL);
}

static void sends_line(struct wait *w)
{
	EXPECT_EQ(write(w->fd[1], "hel", 3), 3);
	settle();
	EXPECT_EQ(write(w->fd[1], "lo\n", 3), 3);
}

static long in_fgets(struct wait *w)
{
	char line[32] = "";

	if (fgets(line, sizeof(line), w->own) == NULL)
		return -1;
	EXPECT(strcmp(line, "hello\n") == 0);
	return 1;
}

static long in_getline(struct wait *w)
{
	char *line = NULL;
	size_t n = 0;
	ssize_t r = getline(&line, &n, w->own);

	EXPECT(r < 0 || strcmp(line, "hello\n") == 0);
	free(line);
	return r;
}

static long in_fread(struct wait *w)
{
	char line[6];
	size_t r = fread(line, 1, sizeof(line), w->own);

	EXPECT(r != 6 || memcmp(line, "hello\n", 6) == 0);
	return (long)r;
}

static long in_fscanf(struct wait *w)
{
	char word[16] = "";
	int r = fscanf(w->own, "%15s", word);

	EXPECT(r < 1 || strcmp(word, "hello") == 0);
	return r;
}

static long in_getc(struct wait *w)
{
	return getc(w->own);
}

static long in_fgetwc(struct wait *w)
{
	return (long)fgetwc(w->own);
}

HOLDS_UP_NOBODY(fgets, .open = opens_reader, .block = in_fgets, .release = sends_line, .wants = 1,
		.how = LIBRARY)
HOLDS_UP_NOBODY(getline, .open = opens_reader, .block = in_getline, .release = sends_line,
		.wants = 6, .how = LIBRARY)
HOLDS_UP_NOBODY(fread, .open = opens_reader, .block = in_fread, .release = sends_line, .wants = 6,
		.how = LIBRARY)
HOLDS_UP_NOBODY(fscanf, .open = opens_reader, .block = in_fscanf, .release = sends_line, .wants = 1,
		.how = LIBRARY)
HOLDS_UP_NOBODY(getc, .open = opens_reader, .block = in_getc, .release = sends_line, .wants = 'h',
		.how = LIBRARY)
HOLDS_UP_NOBODY(fgetwc, .open = opens_reader, .block = in_fgetwc, .release = sends_line,
		.wants = 'h', .how = LIBRARY)

static void opens_writer(struct wait *w)
{
	opens_full_pipe(w);
	w->own = fdopen(w->fd[1], "w");
	EXPECT(w->own != NULL);
}

static void drains(struct wait *w)
{
	drain_until_returned(w, w->fd[0]);
}

static long in_fwrite(struct wait *w)
{
	static const char much[100000];

	return (long)fwrite(much, 1, sizeof(much), w->own);
}

static long in_fprintf_fflush(struct wait *w)
{
	EXPECT_EQ(fprintf(w->own, "%d and %s\n", 42, "more"), 12);
	return fflush(w->own);
}

static long in_fclose(struct wait *w)
{
	EXPECT_EQ(fputs("text", w->own), 1);
	return fclose(w->own);
}

HOLDS_UP_NOBODY(fwrite, .open = opens_writer, .block = in_fwrite, .release = drains,
		.wants = 100000, .how = LIBRARY)
HOLDS_UP_NOBODY(fflush, .open = opens_writer, .block = in_fprintf_fflush, .release = drains,
		.wants = 0, .how = LIBRARY)
HOLDS_UP_NOBODY(fclose, .open = opens_writer, .block = in_fclose, .release = drains, .wants = 0,
		.how = LIBRARY)

/* ---- the lock of a FILE ---- */

static FILE *file;
static int ends[2];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static bool go;

static void *locks_and_waits(void *arg)
{
	flockfile(file);
	flockfile(file);
	tick(&entered);
	pthread_mutex_lock(&mutex);
	while (!go)
		pthread_cond_wait(&cond, &mutex);
	pthread_mutex_unlock(&mutex);
	EXPECT(fputs("first\n", file) >= 0);
	funlockfile(file);
	EXPECT_EQ(returned.n, 0);
	EXPECT(fputs("second\n", file) >= 0);
	funlockfile(file);
	return arg;
}

static void *prints(void *arg)
{
	char line[32];

	tick(&entered);
	snprintf(line, sizeof(line), "thread %ld\n", (long)arg);
	EXPECT(fputs(line, file) >= 0);
	tick(&returned);
	return NULL;
}

TEST(a_FILE_locked_by_one_who_waits_blocks_only_those_who_want_it)
{
	char line[64];
	bool seen[WAITERS] = { false };
	pthread_t t[WAITERS], holder;

	file = tmpfile();
	EXPECT(file != NULL);
	EXPECT_EQ(pthread_create(&holder, NULL, locks_and_waits, NULL), 0);
	await(&entered, 1);
	EXPECT_EQ(ftrylockfile(file) != 0, 1);
	start_numbered(t, WAITERS, prints);
	await(&entered, 1 + WAITERS);
	settle();
	expect_progress();
	EXPECT_EQ(returned.n, 0);
	pthread_mutex_lock(&mutex);
	go = true;
	pthread_cond_signal(&cond);
	pthread_mutex_unlock(&mutex);
	EXPECT_EQ(pthread_join(holder, NULL), 0);
	join(t, WAITERS);
	rewind(file);
	EXPECT(fgets(line, sizeof(line), file) && strcmp(line, "first\n") == 0);
	EXPECT(fgets(line, sizeof(line), file) && strcmp(line, "second\n") == 0);
	for (int i = 0; i < WAITERS; i++) {
		int n = -1;
		EXPECT_EQ(fscanf(file, "thread %d\n", &n), 1);
		EXPECT(n >= 0 && n < WAITERS && !seen[n]);
		seen[n] = true;
	}
	EXPECT_EQ(ftrylockfile(file), 0);
	funlockfile(file);
}

/* One who reads holds the lock of its FILE while it blocks; the others get a line each. */
static _Atomic int lines[100];

static void *reads_lines(void *arg)
{
	char line[32];

	while (fgets(line, sizeof(line), file)) {
		int n = atoi(line);
		EXPECT(n >= 0 && n < 100);
		atomic_fetch_add(&lines[n], 1);
		tick(&returned);
	}
	return arg;
}

TEST(readers_of_one_FILE_get_whole_lines)
{
	pthread_t t[6];
	char line[32];

	EXPECT_EQ(pipe(ends), 0);
	file = fdopen(ends[0], "r");
	start(t, 6, reads_lines, NULL);
	for (int i = 0; i < 100; i++) {
		int n = snprintf(line, sizeof(line), "%d\n", i);
		EXPECT_EQ(write(ends[1], line, (size_t)n), n);
		if (i % 25 == 0)
			await(&returned, i + 1);
	}
	close(ends[1]);
	join(t, 6);
	for (int i = 0; i < 100; i++)
		EXPECT_EQ(lines[i], 1);
}

static void *writes_lines(void *arg)
{
	for (int i = 0; i < 300; i++)
		EXPECT(fprintf(file, "%ld:%04d:%s\n", (long)arg, i, "some more text") > 0);
	/* The last one to do so empties the buffer. */
	EXPECT_EQ(fflush(file), 0);
	return NULL;
}

TEST(writers_of_one_FILE_do_not_mix_their_lines)
{
	pthread_t t[6];
	int next[6] = { 0 };
	FILE *in;

	EXPECT_EQ(pipe(ends), 0);
	EXPECT_EQ(fcntl(ends[1], F_SETPIPE_SZ, 4096), 4096);
	file = fdopen(ends[1], "w");
	in = fdopen(ends[0], "r");
	start_numbered(t, 6, writes_lines);
	for (int i = 0; i < 6 * 300; i++) {
		char line[64];
		int who, n, end = 0;
		EXPECT(fgets(line, sizeof(line), in) != NULL);
		EXPECT_EQ(sscanf(line, "%d:%d:some more text\n%n", &who, &n, &end), 2);
		EXPECT_EQ(end, strlen(line));
		EXPECT(who >= 0 && who < 6);
		EXPECT_EQ(n, next[who]++);
	}
	join(t, 6);
}

/* A FILE of a file of its own each: locks that are not contended, and no byte lost. */
static void *copies_a_file(void *arg)
{
	FILE *f = tmpfile();
	int c;
	long sum = 0;

	EXPECT(f != NULL);
	for (int i = 0; i < 30000; i++)
		EXPECT(putc(i % 251, f) != EOF);
	rewind(f);
	while ((c = getc(f)) != EOF)
		sum += c;
	EXPECT_EQ(ftell(f), 30000);
	EXPECT_EQ(fclose(f), 0);
	atomic_store((_Atomic long *)arg, sum);
	return NULL;
}

TEST(each_thread_has_a_FILE_of_its_own)
{
	static _Atomic long sums[8];
	pthread_t t[8];
	long want = 0;

	for (int i = 0; i < 30000; i++)
		want += i % 251;
	for (int i = 0; i < 8; i++)
		EXPECT_EQ(pthread_create(&t[i], NULL, copies_a_file, &sums[i]), 0);
	for (int i = 0; i < 8; i++) {
		EXPECT_EQ(pthread_join(t[i], NULL), 0);
		EXPECT_EQ(sums[i], want);
	}
}

/* A stream that another descriptor made non-blocking says so, and goes on. */
static void *reads_nothing(void *arg)
{
	char line[8];

	EXPECT(fgets(line, sizeof(line), file) == NULL);
	EXPECT_EQ(errno, EAGAIN);
	EXPECT(ferror(file));
	clearerr(file);
	return arg;
}

TEST(a_stream_that_may_not_wait_says_EAGAIN)
{
	char line[8];

	EXPECT_EQ(pipe(ends), 0);
	file = fdopen(ends[0], "r");
	nonblocking(ends[0], true);
	on_thread(reads_nothing, NULL);
	nonblocking(ends[0], false);
	EXPECT_EQ(write(ends[1], "ab\n", 3), 3);
	EXPECT(fgets(line, sizeof(line), file) && strcmp(line, "ab\n") == 0);
}

/* A cancellation inside stdio leaves the FILE unlocked, its text unread. */
static void *reads_a_line(void *arg)
{
	char line[32];

	pthread_cleanup_push(cleans, NULL);
	tick(&entered);
	EXPECT(fgets(line, sizeof(line), file) != NULL);
	EXPECT(strcmp(line, "hello\n") == 0);
	pthread_cleanup_pop(0);
	return arg;
}

TEST(a_cancelled_fgets_unlocks_its_FILE)
{
	pthread_t t;

	EXPECT_EQ(pipe(ends), 0);
	file = fdopen(ends[0], "r");
	EXPECT_EQ(pthread_create(&t, NULL, reads_a_line, NULL), 0);
	await(&entered, 1);
	settle();
	EXPECT_EQ(pthread_cancel(t), 0);
	expect_cancelled(t);
	EXPECT_EQ(cleaned.n, 1);
	EXPECT_EQ(write(ends[1], "hello\n", 6), 6);
	on_thread(reads_a_line, NULL);
}

/* ---- a descriptor that stdio opened anew is waited for by nobody's registration but its own ----
 */

static char fifo[3][PATH_MAX];
static FILE *reopened;
static struct event anew, begun, waiting, whole;

static void *reads_quiet(void *arg)
{
	char c;

	EXPECT_EQ(read(*(int *)arg, &c, 1), 1);
	return NULL;
}

static void *reads_anew(void *arg)
{
	char c;

	EXPECT_EQ(read(fileno(reopened), &c, 1), 1);
	reopened = freopen(fifo[1], "r+", reopened);
	EXPECT(reopened != NULL);
	tick(&anew);
	await(&begun, 1);
	tick(&waiting);
	EXPECT_EQ(read(fileno(reopened), &c, 1), 1);
	tick(&whole);
	return arg;
}

/* In a call that ends once the byte has been read. While it is in the one before, all others wait.
 */
static void *writes_and_waits(void *arg)
{
	char command[3 * PATH_MAX];

	await(&anew, 1);
	snprintf(command, sizeof(command), "read x <%s", fifo[2]);
	EXPECT_EQ(system(command), 0);
	tick(&begun);
	await(&waiting, 1);
	snprintf(command, sizeof(command), "echo x >%s; read x <%s", fifo[1], fifo[2]);
	EXPECT_EQ(system(command), 0);
	return arg;
}

TEST(a_file_that_was_opened_anew_is_read_while_another_is_in_a_call)
{
	char directory[] = "/tmp/anew-XXXXXX";
	int quiet[2], gate;
	pthread_t t[3];

	EXPECT(mkdtemp(directory) != NULL);
	for (int i = 0; i < 3; i++) {
		snprintf(fifo[i], sizeof(fifo[i]), "%s/%d", directory, i);
		EXPECT_EQ(mkfifo(fifo[i], 0600), 0);
	}
	reopened = fopen(fifo[0], "r+");
	gate = open(fifo[2], O_RDWR);
	EXPECT_EQ(pipe(quiet), 0);
	start(t, 1, reads_quiet, &quiet[0]);
	start(t + 1, 1, reads_anew, NULL);
	start(t + 2, 1, writes_and_waits, NULL);
	settle();
	EXPECT_EQ(fputc('y', reopened), 'y');
	EXPECT_EQ(fflush(reopened), 0);
	await(&anew, 1);
	settle();
	EXPECT_EQ(write(gate, "\n", 1), 1);
	await(&whole, 1);
	EXPECT_EQ(write(gate, "\n", 1), 1);
	EXPECT_EQ(write(quiet[1], "x", 1), 1);
	join(t, 3);
	for (int i = 0; i < 3; i++)
		unlink(fifo[i]);
	rmdir(directory);
}
