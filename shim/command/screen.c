/* A terminal by its usual sequences: screen.h. */
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static volatile sig_atomic_t open_, ending;

static void put(const char *text, size_t n)
{
	while (n > 0) {
		ssize_t done = write(STDOUT_FILENO, text, n);
		if (done < 0 && errno != EINTR)
			return;
		text += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
}

static void say(const char *text)
{
	put(text, strlen(text));
}

/* Another screen, no cursor; and back. */
static const char enter[] = "\033[?1049h\033[?25l", leave[] = "\033[?25h\033[?1049l";

static void ends(int sig)
{
	(void)sig;
	ending = 1;
}

/* Stopped by ^Z: the terminal is the shell's meanwhile. */
static void stops(int sig)
{
	int error = errno;

	(void)sig;
	say(leave);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
	raise(SIGSTOP);
	errno = error;
}

static void take(void)
{
	struct termios raw = before;

	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	tcsetattr(STDIN_FILENO, TCSANOW, &raw);
	say(enter);
}

static void continues(int sig)
{
	int error = errno;

	(void)sig;
	if (open_)
		take();
	errno = error;
}

static void changes(int sig)
{
	(void)sig;
}

static void handle(int sig, void (*fn)(int))
{
	struct sigaction act = { .sa_handler = fn };

	sigaction(sig, &act, NULL);
}

bool screen_open(void)
{
	if (!isatty(STDOUT_FILENO) || tcgetattr(STDIN_FILENO, &before) != 0)
		return false;
	handle(SIGINT, ends);
	handle(SIGTERM, ends);
	handle(SIGHUP, ends);
	handle(SIGTSTP, stops);
	handle(SIGCONT, continues);
	handle(SIGWINCH, changes);
	open_ = 1;
	take();
	return true;
}

void screen_close(void)
{
	if (!open_)
		return;
	open_ = 0;
	say(leave);
	tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

void screen_size(int *columns, int *rows)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0) {
		*columns = size.ws_col;
		*rows = size.ws_row;
	}
}

/* Each line clears what was right of it, the last all below. */
void screen_show(const char *frame, size_t n)
{
	const char *end = frame + n;

	say("\033[H");
	while (frame < end) {
		const char *line = memchr(frame, '\n', (size_t)(end - frame));
		size_t len = (size_t)((line ? line : end) - frame);
		put(frame, len);
		say("\033[K");
		frame += len + 1;
		if (frame < end)
			say("\r\n");
	}
	say("\033[J");
}

int screen_key(int ms)
{
	struct pollfd p = { .fd = STDIN_FILENO, .events = POLLIN };
	unsigned char c;

	if (ending)
		return -1;
	if (poll(&p, 1, ms) > 0) {
		ssize_t n = read(STDIN_FILENO, &c, 1);
		/* The terminal has gone. */
		if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
			return -1;
		return n == 1 ? c : 0;
	}
	return ending ? -1 : 0;
}
