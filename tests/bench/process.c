/* Whole processes. This one is run natively; the arguments after the row's name, NAME=VALUE,
 * are what it adds to the environment of those it measures. */
#include "bench.h"

#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char **added;
static int n_added;

/* Runs a command between in and out (-1: as ours), with the added environment or without, and
 * returns its ns from start to exit. */
static uint64_t run(char *const argv[], int in, int out, bool with)
{
	char *plain[] = { "PATH=/usr/bin:/bin", NULL };
	char **env = plain;
	posix_spawn_file_actions_t fa;
	uint64_t t0;
	pid_t pid;
	int status, n = 0;

	if (with) {
		env = calloc((size_t)n_added + 2, sizeof(*env));
		MUST(env);
		for (; n < n_added; n++)
			env[n] = added[n];
		env[n] = plain[0];
	}
	posix_spawn_file_actions_init(&fa);
	if (in >= 0)
		posix_spawn_file_actions_adddup2(&fa, in, 0);
	if (out >= 0)
		posix_spawn_file_actions_adddup2(&fa, out, 1);
	t0 = bench_now();
	MUST(posix_spawnp(&pid, argv[0], &fa, NULL, argv, env) == 0);
	MUST(waitpid(pid, &status, 0) == pid);
	t0 = bench_now() - t0;
	MUST(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	posix_spawn_file_actions_destroy(&fa);
	if (with)
		free(env);
	return t0;
}

static void start_exit(char *const command[])
{
	enum { TIMES = 201 };
	static uint64_t ns[TIMES];

	for (int i = 0; i < TIMES; i++)
		ns[i] = run(command, -1, -1, true);
	bench_figure((double)bench_median(ns, TIMES) / 1e3, "µs");
}

static void start_true(int argc, char **argv)
{
	char *const command[] = { "/bin/true", NULL };

	n_added = argc;
	added = argv;
	start_exit(command);
}

static void *nothing(void *arg)
{
	return arg;
}

/* In a process of its own, for the row below. */
static void one_thread(int argc, char **argv)
{
	pthread_t t;

	(void)argc;
	(void)argv;
	MUST(pthread_create(&t, NULL, nothing, NULL) == 0);
	MUST(pthread_join(t, NULL) == 0);
}

static void start_thread(int argc, char **argv)
{
	char *const command[] = { "/proc/self/exe", "one-thread", NULL };

	n_added = argc;
	added = argv;
	start_exit(command);
}

/* Words of a small vocabulary, in a file without a name. */
enum { TEXT = 8 << 20 };

static int new_file(void)
{
	int fd = memfd_create("bench", MFD_CLOEXEC);

	MUST(fd >= 0);
	return fd;
}

static void fill(char *text)
{
	uint64_t x = 1;

	for (int at = 0; at < TEXT;) {
		uint64_t word;
		x = x * 6364136223846793005 + 1442695040888963407;
		word = (x >> 52) * (x >> 58) + 7;
		for (; word > 0 && at < TEXT; word /= 26)
			text[at++] = (char)('a' + word % 26);
		if (at < TEXT)
			text[at++] = ' ';
	}
}

static void compress(int argc, char **argv)
{
	char *const squeeze[] = { "xz", "-T1", "-0", "-c", NULL };
	char *const back[] = { "xz", "-dc", NULL };
	int in = new_file(), out = new_file(), again = new_file();
	char *text, *copy;
	uint64_t ns;

	n_added = argc;
	added = argv;
	MUST(ftruncate(in, TEXT) == 0);
	text = mmap(NULL, TEXT, PROT_READ | PROT_WRITE, MAP_SHARED, in, 0);
	MUST(text != MAP_FAILED);
	fill(text);
	ns = run(squeeze, in, out, true);
	MUST(lseek(out, 0, SEEK_END) < TEXT && lseek(out, 0, SEEK_SET) == 0);
	run(back, out, again, false);
	MUST(lseek(again, 0, SEEK_END) == TEXT);
	copy = mmap(NULL, TEXT, PROT_READ, MAP_SHARED, again, 0);
	MUST(copy != MAP_FAILED && memcmp(text, copy, TEXT) == 0);
	bench_figure((double)ns / 1e6, "ms");
}

const struct row bench_rows[] = {
	{ .name = "true", .once = start_true },
	{ .name = "first-thread", .once = start_thread },
	{ .name = "one-thread", .once = one_thread },
	{ .name = "xz", .once = compress },
	{ 0 },
};
