/* The driver behind test.h: forks, times, counts. */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct test *tests;
static uint64_t seed;

void test_register(struct test *t)
{
	struct test **at = &tests;
	while (*at)
		at = &(*at)->next;
	*at = t;
}

uint64_t test_seed(void)
{
	return seed;
}

/* On a G of the core there may be no usable libc below us: raw system calls only. */
static long raw(long nr, long a, long b, long c)
{
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

static char *put(char *to, const char *end, const char *text)
{
	while (*text && to < end)
		*to++ = *text++;
	return to;
}

static char *putnum(char *to, const char *end, long long n, bool is_signed)
{
	char digits[24];
	char *d = digits + sizeof(digits);
	unsigned long long u = is_signed && n < 0 ? 0 - (unsigned long long)n
						  : (unsigned long long)n;

	*--d = 0;
	do
		*--d = (char)('0' + u % 10);
	while (u /= 10);
	if (is_signed && n < 0)
		*--d = '-';
	return put(to, end, d);
}

void test_failed(const char *file, int line, const char *what, long long a, long long b,
		 bool values)
{
	char buf[512];
	char *p = buf, *end = buf + sizeof(buf) - 1;

	p = put(p, end, "  ");
	p = put(p, end, file);
	p = put(p, end, ":");
	p = putnum(p, end, line, true);
	p = put(p, end, ": ");
	p = put(p, end, what);
	if (values) {
		p = put(p, end, " (");
		p = putnum(p, end, a, true);
		p = put(p, end, " != ");
		p = putnum(p, end, b, true);
		p = put(p, end, ")");
	}
	*p++ = '\n';
	raw(SYS_write, 1, (long)buf, p - buf);
	raw(SYS_exit_group, 1, 0, 0);
	__builtin_unreachable();
}

void test_say(const char *format, ...)
{
	char buf[512];
	char *p = buf, *end = buf + sizeof(buf) - 1;
	va_list ap;

	va_start(ap, format);
	for (; *format && p < end; format++) {
		if (*format != '%') {
			*p++ = *format;
			continue;
		}
		while (format[1] == 'l')
			format++;
		switch (*++format) {
		case 's':
			p = put(p, end, va_arg(ap, const char *));
			break;
		case 'd':
			p = putnum(p, end, va_arg(ap, long long), true);
			break;
		case 'u':
			p = putnum(p, end, va_arg(ap, long long), false);
			break;
		}
	}
	va_end(ap);
	*p++ = '\n';
	raw(SYS_write, 1, (long)buf, p - buf);
}

static bool wanted(const char *name, int argc, char **argv)
{
	if (argc < 2)
		return true;
	for (int i = 1; i < argc; i++)
		if (strstr(name, argv[i]))
			return true;
	return false;
}

/* Waits for the child with a limit; true if it ended by itself. */
static bool reap(pid_t pid, unsigned seconds, int *status)
{
	struct timespec limit = { .tv_sec = seconds };
	sigset_t chld;
	int sig;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	for (;;) {
		if (waitpid(pid, status, WNOHANG) == pid)
			return true;
		/* Who was stopped and goes on, by a debugger or a freezer, is interrupted. */
		sig = sigtimedwait(&chld, NULL, &limit);
		if (sig < 0 && errno != EINTR)
			break;
	}
	kill(pid, getenv("HEDDLE_TEST_CORE") ? SIGABRT : SIGKILL);
	waitpid(pid, status, 0);
	/* Its children, which would keep the output open. */
	kill(-pid, SIGKILL);
	return false;
}

int main(int argc, char **argv)
{
	const char *given = getenv("HEDDLE_SEED"), *slow = getenv("HEDDLE_TEST_SLOW");
	unsigned failed = 0, passed = 0, factor = slow ? (unsigned)atoi(slow) : 1;
	struct timespec now;
	sigset_t chld;

	clock_gettime(CLOCK_REALTIME, &now);
	seed = given ? strtoull(given, NULL, 0)
		     : (uint64_t)now.tv_nsec * 2654435761u + (uint64_t)now.tv_sec;
	/* What whoever started us ignores or blocks is not the tests' affair. */
	for (int sig = 1; sig < NSIG; sig++)
		signal(sig, SIG_DFL);
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_SETMASK, &chld, NULL);
	setvbuf(stdout, NULL, _IOLBF, 0);

	for (struct test *t = tests; t; t = t->next) {
		int status = 0;
		if (!wanted(t->name, argc, argv))
			continue;
		fflush(stdout);
		pid_t pid = fork();
		if (pid == 0) {
			setpgid(0, 0);
			/* Whoever ends the driver ends what it runs, which may be a loop. */
			prctl(PR_SET_PDEATHSIG, SIGKILL);
			sigprocmask(SIG_UNBLOCK, &chld, NULL);
			t->fn();
			fflush(stdout);
			_exit(0);
		}
		setpgid(pid, pid);
		bool ended = reap(pid, t->seconds * factor, &status);
		if (ended && WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			printf("ok %s\n", t->name);
			passed++;
			continue;
		}
		failed++;
		if (!ended)
			printf("not ok %s: not done after %u s\n", t->name, t->seconds * factor);
		else if (WIFSIGNALED(status))
			printf("not ok %s: killed by signal %d\n", t->name, WTERMSIG(status));
		else
			printf("not ok %s: exit status %d\n", t->name, WEXITSTATUS(status));
		printf("  again: HEDDLE_SEED=%llu %s %s\n", (unsigned long long)seed, argv[0],
		       t->name);
	}
	printf("%s: %u passed, %u failed\n", argv[0], passed, failed);
	return failed != 0;
}
