/* What the kernel keeps for one thread alone: timer slack, its own directory, privileges it gave
 * up, namespaces, credentials, descriptors of its own. It follows its thread, no other gets it but
 * those that it makes, and what is asked of /proc/thread-self is the kernel's opinion. Niceness is
 * nice_test's. */
#include "event.h"
#include "threads.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/close_range.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/utsname.h>

enum { MANY = 20, ODD_SLACK = 12345 };

/* ---- timer slack, a directory of one's own, privileges ---- */

static int usual_slack;

static void *has_usual_slack(void *arg)
{
	EXPECT_EQ(prctl(PR_GET_TIMERSLACK), usual_slack);
	return arg;
}

static long get_slack(void)
{
	return prctl(PR_GET_TIMERSLACK);
}

static bool set_slack(void)
{
	return prctl(PR_SET_TIMERSLACK, ODD_SLACK) == 0;
}

static void *changes_slack(void *arg)
{
	EXPECT(set_slack());
	wander();
	EXPECT_EQ(get_slack(), ODD_SLACK);
	return arg;
}

TEST(timer_slack_is_one_thread_s)
{
	usual_slack = prctl(PR_GET_TIMERSLACK);
	for (int i = 0; i < 3; i++) {
		run(MANY, changes_slack, NULL);
		run(MANY, has_usual_slack, NULL);
	}
}

static char home[4096];

static bool is_in(const char *directory)
{
	char now[4096];

	return getcwd(now, sizeof(now)) && strcmp(now, directory) == 0;
}

static void *is_at_home(void *arg)
{
	wander();
	EXPECT(is_in(home));
	return arg;
}

static void *goes_away(void *arg)
{
	EXPECT_EQ(unshare(CLONE_FS), 0);
	EXPECT_EQ(chdir("/"), 0);
	wander();
	EXPECT(is_in("/"));
	return arg;
}

TEST(a_directory_of_one_s_own_is_nobody_else_s)
{
	EXPECT(getcwd(home, sizeof(home)) != NULL);
	for (int i = 0; i < 3; i++) {
		pthread_t t[MANY], other[MANY];
		start(t, MANY, goes_away, NULL);
		start(other, MANY, is_at_home, NULL);
		join(t, MANY);
		join(other, MANY);
		EXPECT(is_in(home));
		run(MANY, is_at_home, NULL);
	}
}

static void *keeps_privileges(void *arg)
{
	EXPECT_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
	return arg;
}

static void *gives_up_privileges(void *arg)
{
	EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	wander();
	EXPECT_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 1);
	return arg;
}

TEST(privileges_are_given_up_by_one_thread)
{
	run(MANY, gives_up_privileges, NULL);
	run(MANY, keeps_privileges, NULL);
	keeps_privileges(NULL);
}

/* What a program sees that was begun with it. */
#define LOOKS_FOR_1 "grep -q 'NoNewPrivs:.1' /proc/self/status"

static void *begins_programs(void *gives)
{
	bool given = gives != NULL;
	pid_t pid;

	if (given)
		EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	EXPECT_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), given);
	pid = fork();
	if (pid == 0)
		_exit(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	EXPECT_EQ(WEXITSTATUS(status_of(pid)), given);
	pid = vfork();
	if (pid == 0) {
		execl("/bin/sh", "sh", "-c", LOOKS_FOR_1, (char *)NULL);
		_exit(9);
	}
	EXPECT_EQ(WEXITSTATUS(status_of(pid)), !given);
	EXPECT_EQ(WEXITSTATUS(system(LOOKS_FOR_1)), !given);
	EXPECT_EQ(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), given);
	return gives;
}

static void *becomes_another(void *how)
{
	char *const argv[] = { "sh", "-c", LOOKS_FOR_1, NULL }, *const envp[] = { NULL };

	EXPECT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	switch ((long)how) {
	case 0:
		execv("/bin/sh", argv);
		break;
	case 1:
		execve("/bin/sh", argv, envp);
		break;
	case 2:
		execvp("sh", argv);
		break;
	case 3:
		execlp("sh", "sh", "-c", LOOKS_FOR_1, (char *)NULL);
		break;
	case 4:
		execle("/bin/sh", "sh", "-c", LOOKS_FOR_1, (char *)NULL, envp);
		break;
	default:
		execveat(AT_FDCWD, "/bin/sh", argv, envp, 0);
	}
	return how;
}

TEST(privileges_are_given_up_for_what_a_thread_begins)
{
	pthread_t t[2];

	start(&t[0], 1, begins_programs, (void *)1);
	start(&t[1], 1, begins_programs, NULL);
	join(t, 2);
	for (long how = 0; how < 6; how++) {
		pid_t pid = fork();
		if (pid == 0) {
			on_thread(becomes_another, (void *)how);
			_exit(9);
		}
		EXPECT_EQ(WEXITSTATUS(status_of(pid)), 0);
	}
}

static void *acts_for(void *user)
{
	uid_t u = (uid_t)(long)user;

	setfsuid(u);
	wander();
	EXPECT_EQ(setfsuid((uid_t)-1), u);
	return NULL;
}

TEST(a_file_system_s_user_is_one_thread_s)
{
	pthread_t t[MANY];

	if (geteuid() != 0) {
		test_say("  skipped: needs root");
		return;
	}
	start_numbered(t, MANY, acts_for);
	join(t, MANY);
	for (int i = 0; i < MANY; i++)
		on_thread(acts_for, NULL);
	EXPECT_EQ(setfsuid((uid_t)-1), 0);
}

/* ---- what only the kernel knows of, by its name alone ---- */

/* Says "h4711" of a host that was named so, and 0 of others. */
static long number_of_host(void)
{
	struct utsname u;

	EXPECT_EQ(uname(&u), 0);
	return u.nodename[0] == 'h' ? atol(u.nodename + 1) : 0;
}

static bool names_host(void)
{
	return unshare(CLONE_NEWUTS) == 0 && sethostname("h4711", 5) == 0;
}

/* That of another process, which has gone. */
static int host_of_another = -1;

static bool enters_host(void)
{
	return host_of_another >= 0 && setns(host_of_another, CLONE_NEWUTS) == 0;
}

static void make_host_of_another(void)
{
	char path[64];
	int ready[2];
	pid_t pid;
	char c;

	EXPECT_EQ(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		EXPECT_EQ(write(ready[1], names_host() ? "+" : "-", 1), 1);
		pause();
	}
	EXPECT_EQ(read(ready[0], &c, 1), 1);
	snprintf(path, sizeof(path), "/proc/%d/ns/uts", (int)pid);
	if (c == '+')
		host_of_another = open(path, O_RDONLY);
	kill(pid, SIGKILL);
	status_of(pid);
}

static struct __user_cap_header_struct mine = { _LINUX_CAPABILITY_VERSION_3, 0 };

static long capabilities(void)
{
	struct __user_cap_data_struct data[2];

	EXPECT_EQ(syscall(SYS_capget, &mine, data), 0);
	return data[0].effective;
}

static bool gives_up_capability(void)
{
	struct __user_cap_data_struct data[2];

	EXPECT_EQ(syscall(SYS_capget, &mine, data), 0);
	data[0].effective &= ~(1u << CAP_SYS_BOOT);
	return syscall(SYS_capset, &mine, data) == 0;
}

static long is_bounded(void)
{
	return prctl(PR_CAPBSET_READ, CAP_SYS_BOOT);
}

static bool is_bound(void)
{
	return prctl(PR_CAPBSET_DROP, CAP_SYS_BOOT) == 0;
}

static long memory_policy(void)
{
	int policy = -1;

	syscall(SYS_get_mempolicy, &policy, NULL, 0, NULL, 0);
	return policy;
}

static bool sets_memory_policy(void)
{
	enum { LOCAL = 4 };

	return syscall(SYS_set_mempolicy, LOCAL, NULL, 0) == 0;
}

enum { WHO_PROCESS = 1, BEST_EFFORT_6 = 2 << 13 | 6 };

static long disk_priority(void)
{
	return syscall(SYS_ioprio_get, WHO_PROCESS, 0);
}

static bool sets_disk_priority(void)
{
	return syscall(SYS_ioprio_set, WHO_PROCESS, 0, BEST_EFFORT_6) == 0;
}

static long keyring(void)
{
	return syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0, 0, 0);
}

static bool joins_keyring(void)
{
	return syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL) > 0;
}

static long user(void)
{
	return syscall(SYS_geteuid);
}

static bool is_user(void)
{
	return syscall(SYS_setresuid, -1, 1000, -1) == 0;
}

static long group(void)
{
	return syscall(SYS_getegid);
}

static bool is_in_group(void)
{
	return syscall(SYS_setresgid, -1, 1000, -1) == 0;
}

/* Of a number that all have. */
static int common = -1;

static long has_file(void)
{
	return fcntl(common, F_GETFD);
}

static bool closes_file(void)
{
	return unshare(CLONE_FILES) == 0 && close(common) == 0;
}

static bool closes_files(void)
{
	return close_range((unsigned)common, (unsigned)common, CLOSE_RANGE_UNSHARE) == 0;
}

static const struct own {
	const char *name;
	long (*get)(void);
	bool (*set)(void); /* to another; false: not in this kernel, or for this user */
} owns[] = {
	{ "UTS namespace", number_of_host, names_host },
	{ "UTS namespace of another process", number_of_host, enters_host },
	{ "capabilities", capabilities, gives_up_capability },
	{ "capability bounding set", is_bounded, is_bound },
	{ "memory policy", memory_policy, sets_memory_policy },
	{ "I/O priority", disk_priority, sets_disk_priority },
	{ "session keyring", keyring, joins_keyring },
	{ "user by a system call", user, is_user },
	{ "group by a system call", group, is_in_group },
	{ "descriptors", has_file, closes_file },
	{ "descriptors by close_range", has_file, closes_files },
};

enum { OWNS = sizeof(owns) / sizeof(*owns), OWNERS = 4 };

static long usual_of[OWNS];
static _Atomic bool differs[OWNS];

struct heir {
	const struct own *o;
	long it;
	int generation;
};

static void *has_its_maker_s(void *arg)
{
	const struct heir *h = arg;
	struct heir next = { h->o, h->it, h->generation + 1 };

	EXPECT_EQ(h->o->get(), h->it);
	wander();
	EXPECT_EQ(h->o->get(), h->it);
	if (next.generation <= 2)
		run(2, has_its_maker_s, &next);
	return arg;
}

static void *has_its_own(void *arg)
{
	const struct own *o = &owns[(long)arg];
	long it;

	EXPECT_EQ(o->get(), usual_of[(long)arg]);
	if (!o->set())
		return arg;
	it = o->get();
	EXPECT(it != usual_of[(long)arg]);
	run(2, has_its_maker_s, &(struct heir){ o, it, 1 });
	for (int i = 0; i < 10; i++) {
		wander();
		EXPECT_EQ(o->get(), it);
	}
	differs[(long)arg] = true;
	return arg;
}

static void *has_the_usual(void *arg)
{
	for (int i = 0; i < 5; i++) {
		EXPECT_EQ(owns[(long)arg].get(), usual_of[(long)arg]);
		wander();
	}
	return arg;
}

TEST(what_only_the_kernel_knows_of_a_thread_is_that_one_s)
{
	pthread_t t[OWNS][OWNERS], other[OWNS];

	make_host_of_another();
	common = open("/dev/null", O_RDONLY);
	for (long i = 0; i < OWNS; i++)
		usual_of[i] = owns[i].get();
	for (long i = 0; i < OWNS; i++)
		start(t[i], OWNERS, has_its_own, (void *)i);
	start_numbered(other, OWNS, has_the_usual);
	for (long i = 0; i < OWNS; i++)
		join(t[i], OWNERS);
	join(other, OWNS);
	/* And none who comes after. */
	start_numbered(other, OWNS, has_the_usual);
	join(other, OWNS);
	for (long i = 0; i < OWNS; i++) {
		EXPECT_EQ(owns[i].get(), usual_of[i]);
		if (!differs[i])
			test_say("  skipped: %s", owns[i].name);
	}
}

static struct event others_ran;

static void *has_what_was_before(void *arg)
{
	await(&others_ran, 1);
	wander();
	EXPECT_EQ(((const struct own *)arg)->get(), usual_of[0]);
	return arg;
}

TEST(what_the_first_thread_has_of_its_own_have_those_that_it_makes_then)
{
	static const struct own slack = { "timer slack", get_slack, set_slack };
	pthread_t before;

	usual_of[0] = slack.get();
	start(&before, 1, has_what_was_before, (void *)&slack);
	EXPECT(slack.set());
	run(MANY, has_its_maker_s, &(struct heir){ &slack, slack.get(), 1 });
	tick(&others_ran);
	join(&before, 1);
}

/* Of what is handed on and can be chosen, too, that is had which was chosen. */
static void *has_all_cpus(void *all)
{
	cpu_set_t now;

	EXPECT_EQ(pthread_getaffinity_np(pthread_self(), sizeof(now), &now), 0);
	EXPECT(CPU_EQUAL(&now, (cpu_set_t *)all));
	EXPECT_EQ(syscall(SYS_sched_getaffinity, 0, sizeof(now), &now) > 0, true);
	EXPECT(CPU_EQUAL(&now, (cpu_set_t *)all));
	EXPECT_EQ(get_slack(), ODD_SLACK);
	return all;
}

static void *has_one_cpu_of(void *all)
{
	pthread_attr_t attr;
	cpu_set_t one;
	pthread_t t;

	CPU_ZERO(&one);
	for (size_t cpu = 0; CPU_COUNT(&one) == 0; cpu++)
		if (CPU_ISSET(cpu, (cpu_set_t *)all))
			CPU_SET(cpu, &one);
	EXPECT(set_slack());
	EXPECT_EQ(pthread_setaffinity_np(pthread_self(), sizeof(one), &one), 0);
	EXPECT_EQ(pthread_attr_init(&attr), 0);
	EXPECT_EQ(pthread_attr_setaffinity_np(&attr, sizeof(one), all), 0);
	EXPECT_EQ(pthread_create(&t, &attr, has_all_cpus, all), 0);
	EXPECT_EQ(pthread_join(t, NULL), 0);
	run(1, has_all_cpus, &one);
	return all;
}

TEST(what_is_chosen_is_not_handed_on)
{
	cpu_set_t all;

	memset(&all, 0, sizeof(all));
	EXPECT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
	run(2, has_one_cpu_of, &all);
}

/* And what one has that could not have it any more. */
enum { LESS_NICE = -3, NOBODY = 65534 };

static long kernels(long nr)
{
	long r;

	__asm__ volatile("syscall" : "=a"(r) : "0"(nr), "D"(0), "S"(0) : "rcx", "r11", "memory");
	return r;
}

static void *is_privileged_by_birth(void *arg)
{
	EXPECT_EQ(20 - kernels(SYS_getpriority), LESS_NICE);
	EXPECT_EQ(kernels(SYS_sched_getscheduler), SCHED_RR);
	wander();
	EXPECT_EQ(20 - kernels(SYS_getpriority), LESS_NICE);
	EXPECT_EQ(kernels(SYS_sched_getscheduler), SCHED_RR);
	return arg;
}

static void *gives_up_its_user(void *arg)
{
	struct sched_param param = { .sched_priority = 1 };
	struct rlimit none = { 0, 0 };

	EXPECT_EQ(setpriority(PRIO_PROCESS, 0, LESS_NICE), 0);
	EXPECT_EQ(pthread_setschedparam(pthread_self(), SCHED_RR, &param), 0);
	EXPECT_EQ(setrlimit(RLIMIT_RTPRIO, &none), 0);
	EXPECT_EQ(setrlimit(RLIMIT_NICE, &none), 0);
	EXPECT_EQ(syscall(SYS_setresuid, NOBODY, NOBODY, NOBODY), 0);
	run(3, is_privileged_by_birth, NULL);
	return arg;
}

TEST(who_has_a_priority_and_may_not_ask_for_one_hands_it_on)
{
	if (geteuid() != 0 || setpriority(PRIO_PROCESS, 0, LESS_NICE) != 0) {
		test_say("  skipped: needs root");
		return;
	}
	EXPECT_EQ(setpriority(PRIO_PROCESS, 0, 0), 0);
	on_thread(gives_up_its_user, NULL);
}

/* ---- keys ---- */

static void *finds_its_key(void *arg)
{
	long key = syscall(SYS_add_key, "user", "of a thread", "x", 1, KEY_SPEC_THREAD_KEYRING);

	/* Some containers forbid keys. */
	for (int i = 0; key > 0 && i < 10; i++) {
		wander();
		EXPECT_EQ(syscall(SYS_request_key, "user", "of a thread", NULL, 0), key);
	}
	return arg;
}

TEST(a_key_of_a_thread_s_is_that_one_s)
{
	run(MANY, finds_its_key, NULL);
}

/* ---- descriptors of one's own ---- */

static struct event unshared, opened, read_it;
static int number;

static int rings_soon(void)
{
	struct itimerspec soon = { .it_value = { 0, MS } };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);

	/* The other's number. */
	EXPECT_EQ(fd, number);
	EXPECT_EQ(timerfd_settime(fd, 0, &soon, NULL), 0);
	return fd;
}

static void awaits_by_epoll(int fd)
{
	struct epoll_event e = { EPOLLIN, { .fd = fd } };
	int ep = epoll_create1(0);

	EXPECT_EQ(epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e), 0);
	EXPECT_EQ(epoll_wait(ep, &e, 1, -1), 1);
	EXPECT_EQ(close(ep), 0);
}

static void awaits_by_poll(int fd)
{
	EXPECT_EQ(poll(&(struct pollfd){ fd, POLLIN, 0 }, 1, -1), 1);
}

static void awaits_by_select(int fd)
{
	fd_set set;

	FD_ZERO(&set);
	FD_SET(fd, &set);
	EXPECT_EQ(select(fd + 1, &set, NULL, NULL, NULL), 1);
}

static void awaits_by_read(int fd)
{
	(void)fd;
}

static void *has_own_numbers(void *arg)
{
	static void (*const ways[])(int) = { awaits_by_read, awaits_by_poll, awaits_by_select,
					     awaits_by_epoll };

	EXPECT_EQ(unshare(CLONE_FILES), 0);
	tick(&unshared);
	await(&opened, 1);
	settle();
	for (int i = 0; i < 20; i++) {
		uint64_t n = 0;
		int fd = rings_soon();
		ways[i % 4](fd);
		EXPECT_EQ(read(fd, &n, sizeof(n)), sizeof(n));
		EXPECT_EQ(n, 1);
		EXPECT_EQ(close(fd), 0);
	}
	return arg;
}

static void *reads_the_common_one(void *arg)
{
	uint64_t n = 0;

	await(&unshared, 1);
	number = eventfd(0, 0);
	tick(&opened);
	EXPECT_EQ(read(number, &n, sizeof(n)), sizeof(n));
	EXPECT_EQ(n, 5);
	tick(&read_it);
	return arg;
}

TEST(two_tables_of_descriptors_are_waited_in_by_the_same_numbers)
{
	pthread_t t[2];

	start(&t[0], 1, has_own_numbers, NULL);
	start(&t[1], 1, reads_the_common_one, NULL);
	join(&t[0], 1);
	settle();
	EXPECT_EQ(read_it.n, 0);
	EXPECT_EQ(eventfd_write(number, 5), 0);
	join(&t[1], 1);
}

/* ---- what the kernel counts ---- */

static _Atomic bool counted;

static void *burns(void *arg)
{
	while (!counted)
		sched_yield();
	return arg;
}

static long long own_cpu(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The tid that it asks for: its own, as 0 or by number. */
static void *counts_its_own(void *arg)
{
	enum { BURNT_NS = 50 * 1000 * 1000 };
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	long long began, used, n = 0;
	int fd = (int)syscall(SYS_perf_event_open, &attr, arg ? gettid() : 0, -1, -1, 0);

	if (fd < 0) {
		EXPECT(errno != ESRCH);
		test_say("  skipped: no counters here: %s", strerror(errno));
		return NULL;
	}
	began = own_cpu();
	do
		used = own_cpu() - began;
	while (used < BURNT_NS);
	EXPECT_EQ(read(fd, &n, sizeof(n)), sizeof(n));
	close(fd);
	EXPECT(n > BURNT_NS * 8 / 10);
	EXPECT(n < used * 12 / 10);
	return NULL;
}

TEST(a_counter_of_the_kernel_s_counts_one_thread)
{
	pthread_t t[4], c[2];

	start(t, 4, burns, NULL);
	start(&c[0], 1, counts_its_own, NULL);
	start(&c[1], 1, counts_its_own, &counted);
	join(c, 2);
	counted = true;
	join(t, 4);
}

/* ---- descriptors of one's own, of which none is left ---- */

static int fed[2];

static void *is_fed(void *arg)
{
	char c;

	EXPECT_EQ(read(fed[0], &c, 1), 1);
	return arg;
}

/* Whoever else waits for descriptors is none of its affairs. */
static void *sleeps_without_descriptors(void *arg)
{
	EXPECT_EQ(close_range(3, ~0U, CLOSE_RANGE_UNSHARE), 0);
	for (int i = 0; i < 4; i++)
		usleep(10000);
	return arg;
}

TEST(who_has_closed_all_for_himself_sleeps_beside_who_waits_for_a_descriptor)
{
	pthread_t t, u;

	EXPECT_EQ(pipe(fed), 0);
	start(&t, 1, is_fed, NULL);
	settle();
	start(&u, 1, sleeps_without_descriptors, NULL);
	join(&u, 1);
	EXPECT_EQ(write(fed[1], "x", 1), 1);
	join(&t, 1);
}
