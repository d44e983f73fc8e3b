/* The file of record.h, mapped: what was written of a turn is there however the process ends. By
 * raw calls, for the program's own symbols are ours. A record keeps a descriptor of it, high up, by
 * which it grows, and asks whether that still is what it was. */
#include "record.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"
#include "core.h"
#include "early.h"
#include "files.h"
#include "mode.h"
#include "os.h"
#include "policies/turns.h"
#include "syscall.h"
#include "text.h"

enum {
	STEP = 256 * 1024,
	MOST = 256 * 1024 * 1024,
};

FORKED static struct turnlog turns;
static struct stat file;
static int kept = -1;
static bool used; /* by this process, or one that it was forked from */

static struct turnlog *refuse(const char *what, const char *more)
{
	char buf[512];
	struct text t = TEXT(buf);

	text_put(&t, turns.replays ? "heddle: replay: " : "heddle: record: ");
	text_put(&t, turns.name);
	text_put(&t, ": ");
	text_put(&t, what);
	text_put(&t, more);
	text_put(&t, "\n");
	text_write2(&t);
	return NULL;
}

/* To run it in another order would be no answer to who wants this one. */
static void __attribute__((noreturn)) end_with(const char *what)
{
	refuse(what, "");
	for (;;)
		arch_syscall3(SYS_exit_group, TURNS_DEPARTED, 0, 0);
}

static void program(char *to, size_t size)
{
	long n = arch_syscall3(SYS_readlink, (long)"/proc/self/exe", (long)to, (long)size - 1);

	to[n > 0 ? n : 0] = 0;
}

static bool is_ours(int fd)
{
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == file.st_dev &&
	       st.st_ino == file.st_ino;
}

/* Room is asked of the file system first: a page that cannot be had would be a SIGBUS. */
static bool grow(struct turnlog *l)
{
	if (l->size + STEP > MOST || !is_ours(kept) ||
	    os_enlarge(SYS_fallocate, kept, 0, 0, (long)(l->size + STEP)) < 0)
		return false;
	l->size += STEP;
	return true;
}

static uint8_t *map(int fd, size_t size, int prot, int how)
{
	uint8_t *at = (uint8_t *)arch_syscall6(SYS_mmap, 0, (long)size, prot, how, fd, 0);

	return os_failed(at) ? NULL : at;
}

static struct turnlog *begin_record(const char *policy, uint64_t seed)
{
	int fd = file_open(FILE_RECORD);
	struct turnhead *head;

	if (fd < 0)
		return refuse(fd == -EEXIST ? "is there already" : "cannot be made", "");
	kept = file_high(fd);
	fstat(kept, &file);
	turns.grow = grow;
	turns.at = grow(&turns) ? map(kept, MOST, PROT_READ | PROT_WRITE, MAP_SHARED) : NULL;
	if (!turns.at)
		return refuse("has no room", "");
	head = (struct turnhead *)(void *)turns.at;
	memcpy(head->magic, TURN_MAGIC, sizeof(head->magic));
	head->seed = seed;
	strncpy(head->policy, policy, sizeof(head->policy) - 1);
	program(head->program, sizeof(head->program));
	return &turns;
}

static struct turnlog *begin_replay(void)
{
	int fd = file_open(FILE_REPLAY);
	char self[sizeof(((struct turnhead *)0)->program)];
	const struct turnhead *head;
	const struct turnmark *mark;

	if (fd < 0 || fstat(fd, &file) != 0)
		end_with("cannot be read");
	turns.size = (size_t)file.st_size;
	turns.at = map(fd, turns.size + 1, PROT_READ, MAP_PRIVATE);
	arch_syscall3(SYS_close, fd, 0, 0);
	head = (const struct turnhead *)(void *)turns.at;
	if (!head || turns.size < sizeof(*head) ||
	    memcmp(head->magic, TURN_MAGIC, sizeof(head->magic)) != 0)
		end_with("is no record");
	mark = &head->marks[head->latest & 1];
	if (mark->used < sizeof(*head) || mark->used > turns.size ||
	    mark->sum != turns_sum(0, turns.at + sizeof(*head), mark->used - sizeof(*head)))
		end_with("was altered");
	/* A program on the way to that which was recorded, or that it starts, perhaps. */
	program(self, sizeof(self));
	if (strncmp(self, head->program, sizeof(self)) != 0)
		return refuse("is of another program: ", head->program);
	return &turns;
}

struct turnlog *record_begin(const char *policy, uint64_t seed)
{
	turns = (struct turnlog){ .replays = config.replay != NULL,
				  .name = config.replay ? config.replay : config.record };
	if (!turns.name)
		return NULL;
	if (!config.gomaxprocs || strcmp(config.gomaxprocs, "1") != 0)
		return refuse("GOMAXPROCS is not 1", "");
	if (used)
		return refuse("was used by the process that this one was forked from", "");
	used = true;
	return turns.replays ? begin_replay() : begin_record(policy, seed);
}

static uint64_t record_used(void)
{
	const struct turnhead *head = (const struct turnhead *)(void *)turns.at;

	return head->marks[head->latest & 1].used;
}

void record_end(void)
{
	if (heddle_started())
		core_turnsend();
	if (turns.at && !turns.replays && is_ours(kept))
		arch_syscall3(SYS_ftruncate, kept, (long)record_used(), 0);
}

FORKS void record_forked(void)
{
	turns.at = NULL;
}
