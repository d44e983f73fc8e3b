/* Running of trial.h. */
#include "trial.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

volatile int trial_interrupted;
static volatile sig_atomic_t continued;

static void interrupted(int sig)
{
	trial_interrupted = sig;
}

static void continues(int sig)
{
	(void)sig;
	continued = 1;
}

void trial_signals(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction act = { .sa_handler = interrupted }, before;

	/* Who is told to ignore one goes on doing so. */
	for (size_t i = 0; i < sizeof(ends) / sizeof(*ends); i++)
		if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
			sigaction(ends[i], &act, NULL);
	act.sa_handler = continues;
	sigaction(SIGCONT, &act, NULL);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

/* A name may be opened again by who asks for /dev/stdout; what it adds goes to the end. */
static int memory(const char *name)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	if (fd >= 0)
		fcntl(fd, F_SETFL, O_APPEND);
	return fd;
}

static void become(const struct trial_setup *setup, const struct variant *v, const char *counters,
		   const struct trial *t)
{
	static const struct rlimit none = { 0, 0 };
	int in = open(setup->input, O_RDONLY);

	/* A group of its own: a hang is ended with all that it has started. */
	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (in >= 0 && in != STDIN_FILENO) {
		dup2(in, STDIN_FILENO);
		close(in);
	}
	dup2(t->out, STDOUT_FILENO);
	dup2(t->err, STDERR_FILENO);
	if (setup->nocore)
		setrlimit(RLIMIT_CORE, &none);
	variant_environment(v, setup->preload, counters);
	if (in >= 0 && variant_confine(v))
		execvp(setup->command[0], setup->command);
	dprintf(STDERR_FILENO, "%s: %s: %s\n", setup->who,
		in < 0 ? setup->input : setup->command[0], strerror(errno));
	_exit(127);
}

/* Until it has ended, its time is over, or we are to end. */
static enum ended await(const struct trial_setup *setup, const struct trial *t, int pidfd,
			double start, double seconds)
{
	enum { SECOND_MS = 1000, LOOK_MS = 20 };
	double ticked = start;
	struct pollfd p = { .fd = pidfd, .events = POLLIN };

	for (;;) {
		double left = seconds > 0 ? start + seconds - now() : 1;
		int ms = left < 0 ? 0 : left < 1 ? (int)(left * SECOND_MS) + 1 : SECOND_MS;
		if (setup->looks && ms > LOOK_MS)
			ms = LOOK_MS;
		if (poll(&p, 1, ms) > 0)
			return ENDED_EXIT;
		if (trial_interrupted)
			return ENDED_CUT;
		if (left <= 0 || (setup->looks && setup->looks(t)))
			return ENDED_HUNG;
		if (now() - ticked < 1)
			continue;
		ticked = now();
		setup->tick();
	}
}

static double seconds_of(struct timeval tv)
{
	return (double)tv.tv_sec + (double)tv.tv_usec / 1e6;
}

static void measure(struct trial *t, int status, const struct rusage *used)
{
	enum { KIB = 1024 };

	t->cpu = seconds_of(used->ru_utime) + seconds_of(used->ru_stime);
	t->rss = (double)used->ru_maxrss * KIB;
	t->ctxsw = (double)(used->ru_nvcsw + used->ru_nivcsw);
	if (t->how != ENDED_EXIT)
		return;
	if (WIFSIGNALED(status))
		t->how = ENDED_SIGNAL;
	t->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

void trial_run(const struct trial_setup *setup, const struct variant *v, const char *counters,
	       double seconds, struct trial *t)
{
	struct rusage used;
	int pidfd = -1, status;
	double start;
	pid_t pid;

	*t = (struct trial){ .how = ENDED_NEVER, .out = memory("stdout"), .err = memory("stderr") };
	continued = 0;
	start = now();
	pid = t->out >= 0 && t->err >= 0 ? fork() : -1;
	if (pid == 0)
		become(setup, v, counters, t);
	if (pid > 0) {
		setpgid(pid, pid);
		pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	}
	if (pidfd < 0) {
		fprintf(stderr, "%s: a process cannot be started: %s\n", setup->who,
			strerror(errno));
		if (pid > 0) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
		}
		return;
	}
	t->how = await(setup, t, pidfd, start, seconds);
	t->wall = now() - start;
	if (t->how == ENDED_HUNG && setup->hung)
		setup->hung(pid);
	close(pidfd);
	/* What it leaves behind would run beside the next. */
	kill(-pid, SIGKILL);
	if (t->how != ENDED_EXIT)
		kill(pid, SIGKILL);
	while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR)
		;
	if (continued)
		t->how = ENDED_STOPPED;
	measure(t, status, &used);
}

char *trial_text(int fd, size_t *n)
{
	struct stat st = { 0 };
	char *text;

	fstat(fd, &st);
	*n = 0;
	text = malloc((size_t)st.st_size + 1);
	if (!text)
		abort();
	while (*n < (size_t)st.st_size) {
		ssize_t got = pread(fd, text + *n, (size_t)st.st_size - *n, (off_t)*n);
		if (got <= 0)
			break;
		*n += (size_t)got;
	}
	text[*n] = 0;
	return text;
}
