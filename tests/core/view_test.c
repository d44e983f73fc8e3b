/* What is to be seen from outside: the page, its rows, who has it, and the orders it takes. Not for
 * sanitizers' builds, whose sysmon has no table of descriptors of its own. */
#include "view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host.h"
#include "raw.h"
#include "sched.h"

static struct group grp;
static ATOMIC(uint32_t) word;

/* Where it is mapped, as another process finds it; 0: nowhere. */
static uintptr_t mapped(void)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[512];
	uintptr_t at = 0;

	EXPECT(maps != NULL);
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:heddle"))
			at = (uintptr_t)strtoull(line, NULL, 16);
	fclose(maps);
	return at;
}

static bool begun(int procs)
{
	if (!can_preempt()) {
		skipped("no table of descriptors of sysmon's own");
		return false;
	}
	start(procs);
	while (!view_page())
		os_yield();
	return true;
}

static const struct view_row *row(const char *of, const char *name)
{
	const struct view_table *t = &view_page()->core;
	const struct view_row *rows = (const struct view_row *)(uintptr_t)t->rows, *found = NULL;

	for (uint32_t i = 0; i < t->n; i++) {
		EXPECT(strnlen(rows[i].of, sizeof(rows[i].of)) < sizeof(rows[i].of));
		EXPECT(strnlen(rows[i].name, sizeof(rows[i].name)) < sizeof(rows[i].name));
		EXPECT(strnlen(rows[i].text, sizeof(rows[i].text)) < sizeof(rows[i].text));
		if (strcmp(rows[i].of, of) == 0 && strcmp(rows[i].name, name) == 0) {
			EXPECT(found == NULL);
			found = &rows[i];
		}
	}
	EXPECT(found != NULL);
	return found;
}

#define EXPECT_FIELD(of, field, name)                                                              \
	do {                                                                                       \
		EXPECT_EQ(row(#of, name)->at, offsetof(struct of, field));                         \
		EXPECT_EQ(row(#of, name)->size, sizeof(((struct of *)0)->field));                  \
	} while (0)

TEST(the_page_names_each_field_where_it_is)
{
	if (!begun(2))
		return;
	EXPECT_EQ(view_page()->magic, VIEW_MAGIC);
	EXPECT_EQ(view_page()->sched, (uintptr_t)&sched);
	EXPECT_EQ(view_page()->pid, getpid());
	EXPECT_FIELD(g, goid, "goid");
	EXPECT_FIELD(g, sched.sp, "sp");
	EXPECT_FIELD(g, alllink, "alllink");
	EXPECT_FIELD(m, tid, "tid");
	EXPECT_FIELD(p, runqtail, "runqtail");
	EXPECT_FIELD(sched, allg, "allg");
	EXPECT_FIELD(stats, switches, "switches");
	EXPECT_EQ(row("g", "")->size, sizeof(struct g));
	EXPECT_EQ(row("gstatus", "waiting")->at, GWAITING);
	EXPECT_EQ(row("waitreason", "sleep")->at, WAIT_SLEEP);
	for (uint32_t reason = 1; reason < WAIT_REASONS; reason++) {
		const struct view_table *t = &view_page()->core;
		const struct view_row *rows = (const struct view_row *)(uintptr_t)t->rows;
		bool named = false;
		for (uint32_t i = 0; i < t->n; i++)
			named |= strcmp(rows[i].of, "waitreason") == 0 && rows[i].at == reason;
		EXPECT(named);
	}
}

TEST(the_page_is_found_by_its_mapping_and_takes_no_number_of_the_programs)
{
	int before = dup(0), after;

	if (!begun(2))
		return;
	EXPECT_EQ(mapped(), (uintptr_t)view_page());
	after = dup(0);
	EXPECT_EQ(after, before + 1);
	for (int fd = 0; fd < 64; fd++) {
		char path[64], to[64];
		ssize_t n;
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, to, sizeof(to) - 1);
		to[n > 0 ? n : 0] = 0;
		EXPECT(strstr(to, "memfd:heddle") == NULL);
	}
}

/* The page, as who may open it maps it. */
static struct view_page *from_outside(void)
{
	const struct view_page *page = view_page();
	char path[64];
	struct stat st;
	void *at;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/fd/%d", page->systid, page->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	EXPECT(fd >= 0);
	EXPECT_EQ(fstat(fd, &st), 0);
	EXPECT_EQ(st.st_mode & 07777, 0600);
	EXPECT_EQ(st.st_size, VIEW_BYTES);
	EXPECT(ftruncate(fd, 0) < 0 && errno == EPERM);
	at = mmap(NULL, VIEW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	EXPECT(at != MAP_FAILED);
	close(fd);
	return at;
}

/* Gives an order and returns the answer. The caller gives its P up meanwhile. */
static uint32_t ordered(struct view_page *page, enum view_ordered what, uint32_t arg)
{
	uint32_t low = ((uint32_t)ld_rlx(&page->order) & ~(uint32_t)255) + 256 + (uint32_t)what;
	uint64_t answer;

	st_rel(&page->order, (uint64_t)arg << 32 | low);
	st_rel(&page->wake, 1);
	syscall(SYS_futex, &page->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
	while ((uint32_t)(answer = ld_acq(&page->answer)) != low)
		sleep_ns(1000 * 1000);
	return (uint32_t)(answer >> 32);
}

TEST(orders_change_gomaxprocs_and_bad_ones_are_answered)
{
	struct view_page *page;

	if (!begun(2))
		return;
	page = from_outside();
	for (uint32_t n = 1; n <= 9; n += 4) {
		EXPECT_EQ(ordered(page, VIEW_PROCS, n), 0);
		EXPECT_EQ(core_procs(), n);
	}
	EXPECT_EQ(ordered(page, VIEW_PROCS, 0), EINVAL);
	EXPECT_EQ(ordered(page, VIEW_PROCS, 0xffffffff), EINVAL);
	EXPECT_EQ(ordered(page, (enum view_ordered)200, 1), EINVAL);
	EXPECT_EQ(core_procs(), 9);
}

static void *order_while_all_sleep(void *arg)
{
	struct view_page *page = from_outside();

	/* sysmon has gone to sleep without an end by then. */
	while (!ld_sc(&sched.sysmonwait))
		usleep(1000);
	st_rel(&page->order, (uint64_t)5 << 32 | 256 | VIEW_PROCS);
	st_rel(&page->wake, 1);
	syscall(SYS_futex, &page->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
	while ((uint32_t)ld_acq(&page->answer) != (256 | VIEW_PROCS))
		usleep(1000);
	st_sc(&word, 1);
	futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0);
	return arg;
}

TEST(an_idle_process_hears_an_order)
{
	if (!begun(2))
		return;
	watcher(order_while_all_sleep, NULL);
	while (!ld_sc(&word))
		futex_wait(&word, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	EXPECT_EQ(core_procs(), 5);
}

enum { ORDERS = 300 };

/* Right after each other, and just when sysmon is about to sleep. */
static void *order_again_and_again(void *arg)
{
	struct view_page *page = from_outside();
	uint64_t state = test_seed() | 1;

	for (uint32_t i = 1; i <= ORDERS; i++) {
		uint32_t low = i * 256 + VIEW_PROCS;
		st_rel(&page->order, (uint64_t)(1 + i % 4) << 32 | low);
		st_rel(&page->wake, 1);
		syscall(SYS_futex, &page->wake, FUTEX_WAKE, 1, NULL, NULL, 0);
		while ((uint32_t)ld_acq(&page->answer) != low)
			usleep(50);
		usleep(random_below(&state, 2) ? random_below(&state, 8000) : 0);
	}
	st_sc(&word, 1);
	futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0);
	return arg;
}

TEST_IN(60, each_of_many_orders_is_answered_while_all_is_idle)
{
	if (!begun(2))
		return;
	watcher(order_again_and_again, NULL);
	while (!ld_sc(&word))
		futex_wait(&word, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	EXPECT_EQ(core_procs(), 1 + ORDERS % 4);
}

static void waits(void *arg)
{
	(void)arg;
	futex_wait(&word, 0, (uint32_t)FUTEX_ANY, NULL, 0);
	group_done(&grp);
}

TEST(who_waits_has_a_time_since_when)
{
	uint64_t before = now_ns(), since;
	struct g *gp;

	start(2);
	grp.left = 1;
	sleep_ns(50 * 1000 * 1000);
	gp = go(waits, NULL);
	until_waiting(gp);
	since = ld_rlx(&gp->waitsince);
	EXPECT(since <= now_ns());
	EXPECT(since > before + 20 * 1000 * 1000);
	futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0);
	group_wait(&grp);
}

TEST(the_child_of_a_fork_that_nobody_told_of_can_wake_and_end)
{
	int status;
	pid_t pid;

	if (!begun(2))
		return;
	pid = fork();
	EXPECT(pid >= 0);
	if (pid == 0) {
		notewakeup(&sched.sysmonnote);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(ld_acq(&view_page()->order), 0);
}

TEST(the_child_of_a_fork_has_a_page_of_its_own_once_it_starts)
{
	struct view_page *parents;
	int status;
	pid_t pid;

	if (!begun(2))
		return;
	parents = from_outside();
	st_rel(&parents->answer, 12345);
	pid = fork();
	EXPECT(pid >= 0);
	if (pid == 0) {
		core_forked();
		EXPECT(view_page() == NULL);
		munmap(parents, VIEW_BYTES);
		EXPECT_EQ(mapped(), 0);
		if (!begun(3))
			_exit(1);
		EXPECT_EQ(view_page()->pid, getpid());
		EXPECT_EQ(ordered(from_outside(), VIEW_PROCS, 4), 0);
		EXPECT_EQ(core_procs(), 4);
		_exit(0);
	}
	EXPECT_EQ(waitpid(pid, &status, 0), pid);
	EXPECT_EQ(status, 0);
	EXPECT_EQ(ld_acq(&parents->answer), 12345);
	EXPECT_EQ(ld_acq(&parents->order), 0);
	EXPECT_EQ(core_procs(), 2);
}
