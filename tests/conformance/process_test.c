/* What a process is, begun and ended by any of its threads while others run: the handlers about a
 * fork, the ways out and what they call, a daemon, adopted children, credentials, what a child is
 * spawned with. The same holds natively. */
#include "event.h"
#include "others.h"

#include <grp.h>
#include <spawn.h>
#include <sys/prctl.h>

/* Among others, in a process of its own. Returns how that ends. */
static int in_process(void *(*fn)(void *), void *arg)
{
	pid_t pid = fork();

	if (pid != 0)
		return status_of(pid);
	among_others(fn, arg);
	exit(77);
}

/* What happened, in order: each writes its letters to the pipe. */
static int told[2];

static void tell(const char *what)
{
	EXPECT_EQ(write(told[1], what, strlen(what)), strlen(what));
}

static void listen_in(void)
{
	EXPECT_EQ(pipe(told), 0);
}

/* All that was told; nobody who might tell more is left. */
static bool was_told(const char *expected)
{
	char is[64] = { 0 };
	ssize_t n;

	close(told[1]);
	n = read(told[0], is, sizeof(is) - 1);
	close(told[0]);
	if (n == (ssize_t)strlen(expected) && strcmp(is, expected) == 0)
		return true;
	test_say("  told: %s", is);
	return false;
}

/* ---- fork ---- */

#define HANDLERS(n)                                                                                \
	static void prepare_##n(void)                                                              \
	{                                                                                          \
		tell("p" #n);                                                                      \
	}                                                                                          \
	static void parent_##n(void)                                                               \
	{                                                                                          \
		tell("q" #n);                                                                      \
	}                                                                                          \
	static void child_##n(void)                                                                \
	{                                                                                          \
		tell("c" #n);                                                                      \
	}
HANDLERS(1)
HANDLERS(2)
HANDLERS(3)

/* The child goes first. */
static void *forks(void *arg)
{
	pid_t pid = ((pid_t(*)(void))arg)();

	if (pid == 0)
		_exit(0);
	EXPECT_EQ(status_of(pid), 0);
	exit(0);
}

static void *forks_with_handlers(void *arg)
{
	pthread_atfork(prepare_1, parent_1, child_1);
	pthread_atfork(prepare_2, parent_2, child_2);
	pthread_atfork(prepare_3, parent_3, child_3);
	return forks(arg);
}

TEST(before_a_fork_the_last_handler_goes_first_and_after_it_last)
{
	char both[64] = { 0 };

	listen_in();
	EXPECT_EQ(in_process(forks_with_handlers, (void *)fork), 0);
	close(told[1]);
	EXPECT_EQ(read(told[0], both, sizeof(both)), 18);
	close(told[0]);
	/* Parent and child tell at the same time. */
	EXPECT(strncmp(both, "p3p2p1", 6) == 0);
	EXPECT(strstr(both, "q1") < strstr(both, "q2") && strstr(both, "q2") < strstr(both, "q3"));
	EXPECT(strstr(both, "c1") < strstr(both, "c2") && strstr(both, "c2") < strstr(both, "c3"));
	EXPECT(strstr(both, "q1") && strstr(both, "c1"));

	listen_in();
	EXPECT_EQ(in_process(forks_with_handlers, (void *)_Fork), 0);
	EXPECT(was_told(""));
}

enum { FORKS = 200, AT_ONCE = 20, PARKED = 100 };

static void *forks_often(void *arg)
{
	for (int i = 0; i < FORKS; i += AT_ONCE) {
		pid_t pid[AT_ONCE];
		for (int k = 0; k < AT_ONCE; k++) {
			pid[k] = fork();
			if (pid[k] == 0)
				_exit((i + k) % 100);
			EXPECT(pid[k] > 0);
		}
		for (int k = 0; k < AT_ONCE; k++)
			EXPECT_EQ(status_of(pid[k]), (i + k) % 100 << 8);
	}
	FAILS(waitpid(-1, NULL, 0), ECHILD);
	return arg;
}

static struct event parked, forked;

static void *parks(void *arg)
{
	tick(&parked);
	await(&forked, 1);
	return arg;
}

TEST(many_forks_among_a_hundred_parked_threads_are_reaped)
{
	pthread_t t[PARKED];

	start(t, PARKED, parks, NULL);
	await(&parked, PARKED);
	on_thread(forks_often, NULL);
	tick(&forked);
	join(t, PARKED);
}

/* ---- a child that has no more than the thread that made it, which ends ---- */

static pthread_key_t of_each;

static void *returns_at_once(void *arg)
{
	return arg;
}

static void tells(void *what)
{
	tell(what);
}

static void *forks_and_ends(void *arg)
{
	pid_t pid;

	EXPECT_EQ(pthread_setspecific(of_each, "k"), 0);
	pid = fork();
	if (pid != 0) {
		EXPECT_EQ(status_of(pid), 0);
		tell("p");
	} else if (arg) {
		pthread_exit(NULL);
	}
	return NULL;
}

TEST(the_child_ends_with_the_thread_that_made_it)
{
	listen_in();
	EXPECT_EQ(pthread_key_create(&of_each, tells), 0);
	for (int i = 0; i < 2; i++)
		on_thread(forks_and_ends, i ? told : NULL);
	among_others(forks_and_ends, told);
	EXPECT(was_told("kpkkpkkpk"));
}

/* ---- the end of the first thread ---- */

int __cxa_thread_atexit_impl(void (*fn)(void *), void *object, void *library);
extern void *__dso_handle;

static void *joins_it(void *it)
{
	EXPECT_EQ(pthread_join((pthread_t)it, NULL), 0);
	tell("j");
	return NULL;
}

static void has_objects_and_ends(bool last)
{
	pthread_t t;

	EXPECT_EQ(pthread_setspecific(of_each, "k"), 0);
	EXPECT_EQ(__cxa_thread_atexit_impl(tells, "o", &__dso_handle), 0);
	if (last)
		on_thread(returns_at_once, NULL);
	else
		start(&t, 1, joins_it, (void *)pthread_self());
	pthread_exit(NULL);
}

/* Others may use them still; exit calls them, if it is the last. */
TEST(thread_local_objects_of_the_first_thread_outlive_it)
{
	EXPECT_EQ(pthread_key_create(&of_each, tells), 0);
	for (int last = 0; last < 2; last++) {
		pid_t pid;
		listen_in();
		pid = fork();
		if (pid == 0)
			has_objects_and_ends(last);
		EXPECT_EQ(status_of(pid), 0);
		EXPECT(was_told(last ? "ko" : "kj"));
	}
}

/* ---- the ways out ---- */

static void at_exit(void)
{
	tell("a");
}

static void at_quick_exit_(void)
{
	tell("q");
}

static void on_exit_(int status, void *arg)
{
	(void)arg;
	tell((char[]){ (char)('0' + status), 0 });
}

static void *leaves(void *arg)
{
	atexit(at_exit);
	at_quick_exit(at_quick_exit_);
	on_exit(on_exit_, NULL);
	switch ((intptr_t)arg) {
	case 1:
		exit(5);
	case 2:
		quick_exit(6);
	case 3:
		_exit(7);
	case 4:
		syscall(SYS_exit_group, 8);
		break;
	default:
		break;
	}
	abort();
}

TEST(each_way_out_of_a_thread_runs_what_it_is_to)
{
	static const struct {
		int status;
		const char *tells;
	} ways[] = { { 5 << 8, "5a" }, { 6 << 8, "q" }, { 7 << 8, "" }, { 8 << 8, "" }, { 0, "" } };

	for (intptr_t i = 0; i < 5; i++) {
		int status;
		listen_in();
		status = in_process(leaves, (void *)(i + 1));
		if (ways[i].status != 0)
			EXPECT_EQ(status, ways[i].status);
		else
			EXPECT(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
		EXPECT(was_told(ways[i].tells));
	}
}

static void *becomes_a_daemon(void *arg)
{
	EXPECT_EQ(daemon(0, 1), 0);
	EXPECT_EQ(getsid(0), getsid(getppid()) == getsid(0) ? -1 : getsid(0));
	others_end = true;
	EXPECT_EQ(on_thread(sleeps_on, (void *)7), 7);
	tell("d");
	exit(0);
	return arg;
}

TEST(a_thread_becomes_a_daemon_that_makes_threads)
{
	char is = 0;

	listen_in();
	EXPECT_EQ(in_process(becomes_a_daemon, NULL), 0);
	close(told[1]);
	EXPECT_EQ(read(told[0], &is, 1), 1);
	EXPECT_EQ(is, 'd');
	/* It has ended. */
	EXPECT_EQ(read(told[0], &is, 1), 0);
}

/* ---- children ---- */

static void *adopts(void *arg)
{
	int status;
	pid_t pid;

	EXPECT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
	pid = fork();
	if (pid == 0) {
		if (fork() == 0)
			_exit(4);
		_exit(3);
	}
	EXPECT_EQ(status_of(pid), 3 << 8);
	EXPECT(wait(&status) > 0);
	EXPECT_EQ(status, 4 << 8);
	FAILS(wait(&status), ECHILD);
	exit(0);
	return arg;
}

TEST(the_child_of_a_child_is_adopted)
{
	EXPECT_EQ(in_process(adopts, NULL), 0);
}

/* By one that looks at its own: what it was begun with. */
static int spawned_with(const posix_spawnattr_t *attr, const char *line)
{
	char *argv[] = { "grep", "-q", (char *)line, "/proc/self/status", NULL };
	char *env[] = { "PATH=/usr/bin:/bin", NULL };
	pid_t pid;

	EXPECT_EQ(posix_spawnp(&pid, "grep", NULL, attr, argv, env), 0);
	if (attr)
		EXPECT_EQ(getpgid(pid), pid);
	return status_of(pid);
}

static void *spawns(void *arg)
{
	posix_spawnattr_t attr;
	sigset_t set;

	/* The tenth, the second bit of the third digit. */
	signal(SIGUSR1, SIG_IGN);
	sigfillset(&set);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigdefault(&attr, &set);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	posix_spawnattr_setsigmask(&attr, &set);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
						POSIX_SPAWN_SETPGROUP);
	EXPECT_EQ(spawned_with(&attr, "^SigBlk:.*0000000000000800$"), 0);
	EXPECT_EQ(spawned_with(&attr, "^SigIgn:.*[014589cd]..$"), 0);
	/* Without any: this thread's, and not another's. */
	sigaddset(&set, SIGHUP);
	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, &set, NULL), 0);
	EXPECT_EQ(spawned_with(NULL, "^SigBlk:.*0000000000000801$"), 0);
	EXPECT_EQ(spawned_with(NULL, "^SigIgn:.*[2367abef]..$"), 0);
	exit(0);
	return arg;
}

TEST(a_child_is_spawned_with_what_is_asked_for_or_its_maker_has)
{
	EXPECT_EQ(in_process(spawns, NULL), 0);
}

/* ---- credentials ---- */

enum { LINES = 400 };

/* Those lines of that task's status. */
static void credentials_of(const char *task, char lines[LINES])
{
	char path[300], text[4096];
	FILE *f;

	lines[0] = 0;
	snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
	f = fopen(path, "r");
	if (!f)
		return;
	while (fgets(text, sizeof(text), f))
		if (strncmp(text, "Uid:", 4) == 0 || strncmp(text, "Gid:", 4) == 0 ||
		    strncmp(text, "Groups:", 7) == 0)
			strncat(lines, text, LINES - strlen(lines) - 1);
	fclose(f);
}

static void *changes_credentials(void *arg)
{
	gid_t groups[] = { 7, 8 };
	char first[LINES] = "", lines[LINES];
	struct dirent *entry;
	DIR *tasks;
	int n = 0;

	EXPECT_EQ(setgroups(2, groups), 0);
	EXPECT_EQ(setresgid(100, 101, 102), 0);
	EXPECT_EQ(setegid(102), 0);
	EXPECT_EQ(setregid(102, 100), 0);
	EXPECT_EQ(setresuid(1000, 1001, 0), 0);
	EXPECT_EQ(setreuid(1001, 1000), 0);
	tasks = opendir("/proc/self/task");
	EXPECT(tasks != NULL);
	while ((entry = readdir(tasks))) {
		if (entry->d_name[0] == '.')
			continue;
		credentials_of(entry->d_name, lines);
		if (!lines[0])
			continue;
		if (n++ == 0)
			strcpy(first, lines);
		EXPECT(strcmp(first, lines) == 0);
	}
	closedir(tasks);
	EXPECT(n > 1);
	EXPECT(strstr(first, "Uid:\t1001\t1000\t1000\t") == first);
	EXPECT(strstr(first, "Gid:\t102\t100\t100\t") != NULL);
	EXPECT(strstr(first, "Groups:\t7 8 ") != NULL);
	exit(0);
	return arg;
}

TEST(credentials_are_those_of_every_kernel_thread)
{
	if (geteuid() != 0) {
		test_say("  skipped: only root has any to change");
		return;
	}
	EXPECT_EQ(in_process(changes_credentials, NULL), 0);
}

/* ---- what the first thread changes of itself ---- */

static void *comes_and_goes(void *arg)
{
	usleep(1000);
	return arg;
}

/* What others see of a process is its first kernel thread's. */
static void goes_elsewhere(void)
{
	char is[16] = "";

	run(4, comes_and_goes, NULL);
	EXPECT_EQ(unshare(CLONE_FS), 0);
	EXPECT_EQ(chdir("/usr"), 0);
	EXPECT(readlink("/proc/self/cwd", is, sizeof(is) - 1) > 0);
	_exit(strcmp(is, "/usr") != 0);
}

TEST(where_the_first_thread_goes_the_process_is_seen_to_go)
{
	enum { TIMES = 30, MOST = 27 };
	int seen = 0;

	for (int i = 0; i < TIMES; i++) {
		pid_t pid = fork();
		if (pid == 0)
			goes_elsewhere();
		seen += status_of(pid) == 0;
	}
	/* Not where that kernel thread is at something else. */
	EXPECT(seen >= MOST);
}

/* ---- a handler as a vfork returns ---- */

static struct event came;
static pid_t whose;
static _Atomic int wrong;

static void finds_itself(int sig)
{
	sigset_t mask;

	EXPECT_EQ(pthread_sigmask(SIG_SETMASK, NULL, &mask), 0);
	wrong += gettid() != whose || !sigismember(&mask, sig) || sigismember(&mask, SIGUSR2);
	tick(&came);
}

/* Its child, in its memory, sends it to the kernel thread that is to have it, and has no more
 * blocked than it has itself. */
static void *vforks(void *arg)
{
	struct sigaction act = { .sa_handler = finds_itself };
	sigset_t mask;

	whose = gettid();
	EXPECT_EQ(sigaction(SIGUSR1, &act, NULL), 0);
	for (int i = 1; i <= 50; i++) {
		pid_t parent = getpid(), tid = kernel_tid(), pid = vfork();
		if (pid == 0) {
			sigprocmask(SIG_SETMASK, NULL, &mask);
			syscall(SYS_tgkill, parent, tid, SIGUSR1);
			_exit(sigismember(&mask, SIGUSR1) || sigismember(&mask, SIGTERM));
		}
		EXPECT_EQ(status_of(pid), 0);
		await(&came, i);
	}
	EXPECT_EQ(wrong, 0);
	return arg;
}

TEST(a_handler_that_runs_as_a_vfork_returns_is_the_thread_s)
{
	on_thread(vforks, NULL);
}
