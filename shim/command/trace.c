/* heddle trace: what a file that heddle run --trace wrote comes to. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "digest.h"

enum { TOP };

static const struct option_row options[] = {
	[TOP] = { "top", 'n', "N", "rows of each table; 10 otherwise" },
	{ NULL, 0, NULL, NULL },
};

static const char *const deeds[] = { "summarize", NULL };

static int run(const struct command *self, int argc, char **argv)
{
	enum { ROWS = 10, MOST_ROWS = 100 };
	struct scan scan;
	const char *near, *file;
	long top = ROWS;
	FILE *in;
	bool ours;
	int found;

	scan_begin(&scan, self, argc, argv);
	while ((found = scan_next(&scan)) >= 0)
		if (!read_number("--top", scan.value, 1, MOST_ROWS, &top))
			return USAGE;
	if (found != SCAN_END)
		return scan_status(found);
	if (scan.noperands != 2) {
		fprintf(stderr, "heddle trace: it takes a file: heddle trace summarize FILE\n");
		return USAGE;
	}
	if (strcmp(scan.operands[0], deeds[0]) != 0) {
		near = nearest(scan.operands[0], deeds);
		fprintf(stderr, "heddle trace: %s: %s summarize%s\n", scan.operands[0],
			near ? "did you mean" : "there is only", near ? "?" : "");
		return USAGE;
	}
	file = scan.operands[1];
	in = fopen(file, "re");
	if (!in) {
		fprintf(stderr, "heddle trace: %s: %s\n", file, strerror(errno));
		return FAILED;
	}
	errno = 0;
	ours = digest_print(in, stdout, (int)top);
	if (!ours)
		fprintf(stderr, "heddle trace: %s: %s\n", file,
			ferror(in) ? strerror(errno) : "this is no trace of heddle's");
	fclose(in);
	return ours ? DONE : FAILED;
}

const struct command command_trace = {
	.name = "trace",
	.operands = "summarize FILE",
	.what = "Time by state, waits for a cpu and locks, of a trace that heddle wrote.",
	.options = options,
	.more = "A trace is made by heddle run --trace FILE, or heddle ctl PID trace=on.\n",
	.run = run,
};
