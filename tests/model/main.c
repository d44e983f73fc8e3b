/* The driver: runs the scenarios of one program and prints a line for each, as test.h's. A
 * crash and a loop without steps count as failures of the execution under way. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "engine.h"
#include "explore.h"

static struct model_test *tests;
static struct outcome result;

void model_register(struct model_test *test)
{
	struct model_test **at = &tests;

	while (*at)
		at = &(*at)->next;
	*at = test;
}

static void crashed(int sig)
{
	model_failed("execution", 0, "killed by signal %d", sig);
}

static void tick(int sig)
{
	static unsigned long before;

	(void)sig;
	if (before == result.executions && current)
		model_failed("execution", 0, "a loop without a step");
	before = result.executions;
}

static void on_signal(int sig, void (*handler)(int))
{
	struct sigaction sa = { .sa_handler = handler, .sa_flags = SA_ONSTACK | SA_NODEFER };

	sigaction(sig, &sa, NULL);
}

static void watch(void)
{
	static char stack[64 * 1024];
	stack_t alternative = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct itimerval second = { { 1, 0 }, { 1, 0 } };

	sigaltstack(&alternative, NULL);
	on_signal(SIGSEGV, crashed);
	on_signal(SIGBUS, crashed);
	on_signal(SIGFPE, crashed);
	on_signal(SIGILL, crashed);
	on_signal(SIGVTALRM, tick);
	setitimer(ITIMER_VIRTUAL, &second, NULL);
}

static bool wanted(const char *name, int argc, char **argv)
{
	for (int i = 0; i < argc; i++)
		if (strcmp(argv[i], name) == 0)
			return true;
	return argc == 0;
}

/* The failing execution once more, printing; its names are better, too. */
static void show(const char *program, const struct model_test *t)
{
	static char schedule[sizeof(result.schedule)], why[sizeof(result.why)];

	memcpy(schedule, result.schedule, sizeof(schedule));
	memcpy(why, result.why, sizeof(why));
	if (*schedule) {
		explore_one(t, schedule, &result);
		if (!result.failed)
			printf("  it does not fail again: not only the schedule matters\n");
		else
			memcpy(why, result.why, sizeof(why));
	}
	printf("  %s\n", why);
	if (*schedule)
		printf("  again: %s -r %s %s\n", program, schedule, t->name);
}

static int usage(const char *program)
{
	fprintf(stderr, "usage: %s [-b departures] [-t seconds] [-q] [-r schedule] [name...]\n",
		program);
	return 2;
}

int main(int argc, char **argv)
{
	const char *schedule = NULL;
	unsigned passed = 0, failed = 0;
	double limit = 60;
	bool quiet = false;
	int bound = -2, opt; /* -2: each scenario's own */

	while ((opt = getopt(argc, argv, "b:t:qr:")) != -1) {
		if (opt == 'b')
			bound = atoi(optarg);
		else if (opt == 't')
			limit = atof(optarg);
		else if (opt == 'q')
			quiet = true;
		else if (opt == 'r')
			schedule = optarg;
		else
			return usage(argv[0]);
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	watch();
	for (struct model_test *t = tests; t; t = t->next) {
		if (!wanted(t->name, argc - optind, argv + optind))
			continue;
		if (schedule) {
			if (!explore_one(t, schedule, &result))
				return usage(argv[0]);
			printf("  %s\n", result.failed ? result.why : "no failure");
			failed += result.failed;
			continue;
		}
		explore_all(t, bound == -2 ? t->bound : bound, limit, &result);
		passed += !result.failed;
		failed += result.failed;
		printf("%s %-58s %8lu executions %8lu states %6.2f s\n",
		       result.failed ? "not ok" : "ok", t->name, result.executions, result.states,
		       result.seconds);
		if (result.failed && !quiet)
			show(argv[0], t);
	}
	printf("%s: %u passed, %u failed\n", argv[0], passed, failed);
	return passed + failed == 0 || failed != 0;
}
