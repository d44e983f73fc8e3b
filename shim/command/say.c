/* Writing for people: say.h. */
#include "say.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "options.h"

const char *say_time(char *buf, uint64_t ns)
{
	uint64_t s = ns / 1000000000u;

	if (s < 60)
		snprintf(buf, SAY_TIME, "%llu.%llus", (unsigned long long)s,
			 (unsigned long long)(ns / 100000000u % 10));
	else if (s < 3600)
		snprintf(buf, SAY_TIME, "%llum%02llus", (unsigned long long)s / 60,
			 (unsigned long long)s % 60);
	else if (s < 100 * 3600)
		snprintf(buf, SAY_TIME, "%lluh%02llum", (unsigned long long)s / 3600,
			 (unsigned long long)s / 60 % 60);
	else
		snprintf(buf, SAY_TIME, "%llud%02lluh", (unsigned long long)s / 86400 % 1000000,
			 (unsigned long long)s / 3600 % 24);
	return buf;
}

const char *say_count(char *buf, uint64_t n)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *to = buf;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = 0;
	return buf;
}

void say_clean(char *text)
{
	/* The second half of the controls is two bytes in UTF-8. */
	enum { DELETE = 127, SECOND = 0xc2, LAST = 0xa0 };
	unsigned char *c = (unsigned char *)text;

	for (; *c; c++)
		if (*c < ' ' || *c == DELETE)
			*c = '?';
		else if (*c == SECOND && c[1] > DELETE && c[1] < LAST)
			*c = c[1] = '?';
}

static ssize_t read_whole(pid_t pid, const char *file, char *buf, size_t size)
{
	char path[64];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, file);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	n = read(fd, buf, size - 1);
	close(fd);
	buf[n > 0 ? n : 0] = 0;
	return n;
}

void say_command(pid_t pid, char *buf, size_t size)
{
	ssize_t n;

	buf[0] = 0;
	n = read_whole(pid, "cmdline", buf, size);
	while (n > 0 && buf[n - 1] == 0)
		n--;
	for (ssize_t i = 0; i < n; i++)
		if (buf[i] == 0)
			buf[i] = ' ';
	if (n <= 0) {
		read_whole(pid, "comm", buf, size);
		buf[strcspn(buf, "\n")] = 0;
	}
	say_clean(buf);
}

bool say_colours(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return isatty(STDOUT_FILENO) && !(no && *no) && term && strcmp(term, "dumb") != 0;
}

const char *bold(void)
{
	return say_colours() ? "\033[1m" : "";
}

const char *dim(void)
{
	return say_colours() ? "\033[2m" : "";
}

const char *plain(void)
{
	return say_colours() ? "\033[0m" : "";
}

/* How many bytes a character of UTF-8 beyond ASCII has here; 0: it is none. */
static int utf8_bytes(const char *text)
{
	unsigned char c = (unsigned char)*text;
	int n = c >= 0xf0 && c < 0xf5	? 4
		: c >= 0xe0 && c < 0xf0 ? 3
		: c >= 0xc2 && c < 0xe0 ? 2
					: 0;

	for (int i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

void say_json_to(FILE *to, const char *text)
{
	fputc('"', to);
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;
		int n = utf8_bytes(text);
		if (n > 0) {
			fwrite(text, 1, (size_t)n, to);
			text += n - 1;
			continue;
		}
		if (c == '"' || c == '\\')
			fprintf(to, "\\%c", c);
		else if (c < ' ' || c > 126)
			fprintf(to, "\\u%04x", c);
		else
			fputc(c, to);
	}
	fputc('"', to);
}

void say_json(const char *text)
{
	say_json_to(stdout, text);
}

bool say_pid(const char *command, int noperands, char **operands, pid_t *pid)
{
	long n;

	if (noperands != 1) {
		fprintf(stderr, "heddle %s: it takes one PID; heddle ps lists them\n", command);
		return false;
	}
	if (!read_number("PID", operands[0], 1, 1 << 30, &n))
		return false;
	*pid = (pid_t)n;
	return true;
}
