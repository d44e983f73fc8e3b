/* The heddle command: runs a program with libheddle.so injected. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
	"usage: heddle [run] [options] [--] COMMAND [ARGUMENT...]\n"
	"Runs COMMAND with its threads on few kernel threads.\n"
	"\n"
	"  -p, --procs N        GOMAXPROCS: how many run at once\n"
	"      --schedtrace MS  a line of the scheduler's state on stderr, so often\n"
	"      --seed N         of the scheduler's random choices\n"
	"      --off            run natively\n"
	"  -h, --help\n"
	"  -V, --version\n"
	"\n"
	"Exit status: the command's; 126 if it cannot be run, 127 if it is not found.\n";

enum { CANNOT_RUN = 126, NOT_FOUND = 127, USAGE = 2 };

/* The library beside this command, or where `make install` puts it. */
static int find_library(char *path, size_t size)
{
	static const char *const places[] = { "libheddle.so", "../lib/libheddle.so" };
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n < 0)
		return -1;
	self[n] = 0;
	*strrchr(self, '/') = 0;
	for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++)
		if ((size_t)snprintf(path, size, "%s/%s", self, places[i]) < size &&
		    access(path, R_OK) == 0)
			return 0;
	errno = ENOENT;
	return -1;
}

static int inject(const char *library)
{
	const char *others = getenv("LD_PRELOAD");
	char *value;
	int r;

	if (!others || !*others)
		return setenv("LD_PRELOAD", library, 1);
	if (asprintf(&value, "%s:%s", library, others) < 0)
		return -1;
	r = setenv("LD_PRELOAD", value, 1);
	free(value);
	return r;
}

int main(int argc, char **argv)
{
	enum { SCHEDTRACE = 256, SEED, OFF };
	static const struct option options[] = {
		{ "procs", required_argument, NULL, 'p' },
		{ "schedtrace", required_argument, NULL, SCHEDTRACE },
		{ "seed", required_argument, NULL, SEED },
		{ "off", no_argument, NULL, OFF },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	char library[PATH_MAX];
	int c;

	if (argc > 1 && strcmp(argv[1], "run") == 0) {
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	while ((c = getopt_long(argc, argv, "+p:hV", options, NULL)) != -1) {
		switch (c) {
		case 'p':
			setenv("GOMAXPROCS", optarg, 1);
			break;
		case SCHEDTRACE:
			setenv("HEDDLE_SCHEDTRACE", optarg, 1);
			break;
		case SEED:
			setenv("HEDDLE_SEED", optarg, 1);
			break;
		case OFF:
			setenv("HEDDLE", "off", 1);
			break;
		case 'h':
			fputs(usage, stdout);
			return 0;
		case 'V':
			puts("heddle " HEDDLE_VERSION);
			return 0;
		default:
			fputs(usage, stderr);
			return USAGE;
		}
	}
	if (optind == argc) {
		fputs(usage, stderr);
		return USAGE;
	}
	if (find_library(library, sizeof(library)) < 0 || inject(library) < 0) {
		fprintf(stderr, "heddle: libheddle.so: %s\n", strerror(errno));
		return CANNOT_RUN;
	}
	execvp(argv[optind], argv + optind);
	fprintf(stderr, "heddle: %s: %s\n", argv[optind], strerror(errno));
	return errno == ENOENT ? NOT_FOUND : CANNOT_RUN;
}
