/* Drawing of progress.h. What is left is judged by the mean of what was. */
#include "progress.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "say.h"

enum { BAR = 30, EIGHTHS = 8, COLUMNS = 80 };

static int all, done;
static double spent;
static struct timespec begun;
static bool shown;

void progress_begin(int runs)
{
	const char *term = getenv("TERM");

	all = runs;
	done = 0;
	spent = 0;
	shown = isatty(STDERR_FILENO) && term && strcmp(term, "dumb") != 0;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	progress_draw();
}

void progress_step(double seconds)
{
	done++;
	spent += seconds;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	progress_draw();
}

/* Of the run that is under way no more is known than of the others. */
static void left(char *buf)
{
	struct timespec now;
	double mean = spent / done, running, ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	running = (double)(now.tv_sec - begun.tv_sec) + (double)(now.tv_nsec - begun.tv_nsec) / 1e9;
	ns = ((all - done) * mean - (running < mean ? running : mean)) * 1e9;
	say_time(buf, ns > 0 ? (uint64_t)ns : 0);
}

static void bar(char *to, int eighths)
{
	static const char *const parts[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	int width = eighths / EIGHTHS;

	*to = 0;
	for (int i = 0; i < width; i++)
		strcat(to, "█");
	strcat(to, parts[eighths % EIGHTHS]);
	width += eighths % EIGHTHS != 0;
	for (; width < BAR; width++)
		strcat(to, " ");
}

void progress_draw(void)
{
	char drawn[BAR * 4], time[SAY_TIME] = "", line[sizeof(drawn) + 80];
	struct winsize size;

	if (!shown || all == 0)
		return;
	bar(drawn, done * BAR * EIGHTHS / all);
	if (done > 0)
		left(time);
	snprintf(line, sizeof(line), "▕%s▏ run %d of %d%s%s%s", drawn, done < all ? done + 1 : all,
		 all, *time ? ", " : "", time, *time ? " left" : "");
	/* A line that is broken in two could not be drawn over. */
	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 &&
	    size.ws_col < COLUMNS)
		snprintf(line, sizeof(line), "%d of %d %s", done, all, time);
	fprintf(stderr, "\r%s\033[K", line);
}

void progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = false;
}
