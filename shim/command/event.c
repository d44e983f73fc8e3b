/* Reading of event.h: as much of JSON as one flat object needs that may hold another one. */
#include "event.h"

#include <string.h>

enum { DEPTH = 4, NAME = 24, NS_DIGITS = 3 };

struct reader {
	const char *at, *end;
};

static bool is(struct reader *r, char c)
{
	while (r->at < r->end && (*r->at == ' ' || *r->at == '\t'))
		r->at++;
	if (r->at == r->end || *r->at != c)
		return false;
	r->at++;
	return true;
}

/* A string, cut to what has room. An escaped letter stands for itself. */
static bool text(struct reader *r, char *to, size_t size)
{
	size_t n = 0;

	if (!is(r, '"'))
		return false;
	for (; r->at < r->end && *r->at != '"'; r->at++) {
		if (*r->at == '\\' && ++r->at == r->end)
			return false;
		if (n + 1 < size)
			to[n++] = *r->at;
	}
	to[n] = 0;
	return r->at < r->end && *r->at++ == '"';
}

static uint64_t times_ten(uint64_t n, unsigned digit)
{
	return n > (INT64_MAX - 9) / 10 ? INT64_MAX : n * 10 + digit;
}

static bool is_digit(const struct reader *r)
{
	return r->at < r->end && *r->at >= '0' && *r->at <= '9';
}

/* A number that is not negative. *thousandth: the same times a thousand. */
static bool number(struct reader *r, uint64_t *whole, uint64_t *thousandth)
{
	int digits = 0;

	if (!is_digit(r))
		return false;
	for (*whole = 0; is_digit(r); r->at++)
		*whole = times_ten(*whole, (unsigned)(*r->at - '0'));
	*thousandth = *whole;
	if (r->at < r->end && *r->at == '.')
		for (r->at++; is_digit(r); r->at++)
			if (digits++ < NS_DIGITS)
				*thousandth = times_ten(*thousandth, (unsigned)(*r->at - '0'));
	while (digits++ < NS_DIGITS)
		*thousandth = times_ten(*thousandth, 0);
	return true;
}

static bool word(struct reader *r, const char *what)
{
	size_t n = strlen(what);

	if ((size_t)(r->end - r->at) < n || memcmp(r->at, what, n) != 0)
		return false;
	r->at += n;
	return true;
}

static uint64_t hex(const char *s)
{
	uint64_t n = 0;

	if (s[0] != '0' || s[1] != 'x')
		return 0;
	for (s += 2; *s; s++) {
		const char *digits = "0123456789abcdef", *at = strchr(digits, *s);
		if (!at)
			return 0;
		n = n << 4 | (uint64_t)(at - digits);
	}
	return n;
}

static void set_number(struct event *to, const char *name, bool inner, uint64_t n, uint64_t ns)
{
	if (inner && strcmp(name, "pid") == 0) {
		to->args_pid = n;
		return;
	}
	if (strcmp(name, "ts") == 0 || strcmp(name, "dur") == 0)
		n = ns;
#define X(field)                                                                                   \
	if (strcmp(name, #field) == 0)                                                             \
		to->field = n;
	EVENT_NUMBERS(X)
#undef X
}

static void set_text(struct event *to, const char *name, bool inner, const char *value)
{
	static const struct {
		const char *name;
		bool inner;
		size_t at, size;
	} texts[] = {
		{ "ph", false, offsetof(struct event, ph), sizeof(to->ph) },
		{ "name", false, offsetof(struct event, name), EVENT_TEXT },
		{ "cat", false, offsetof(struct event, cat), EVENT_TEXT },
		{ "name", true, offsetof(struct event, called), EVENT_TEXT },
		{ "end", true, offsetof(struct event, end), EVENT_TEXT },
	};

	if (inner && strcmp(name, "on") == 0)
		to->on = hex(value);
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		char *field = (char *)to + texts[i].at;
		if (texts[i].inner != inner || strcmp(texts[i].name, name) != 0)
			continue;
		strncpy(field, value, texts[i].size - 1);
		field[texts[i].size - 1] = 0;
	}
}

static bool object(struct reader *r, struct event *to, int depth);

static bool value(struct reader *r, struct event *to, const char *name, int depth)
{
	char s[EVENT_TEXT];
	uint64_t n, ns;
	bool inner = depth > 1;

	while (r->at < r->end && *r->at == ' ')
		r->at++;
	if (r->at == r->end)
		return false;
	if (*r->at == '{')
		return object(r, to, depth);
	if (*r->at == '"') {
		if (!text(r, s, sizeof(s)))
			return false;
		set_text(to, name, inner, s);
	} else if (word(r, "true")) {
		set_number(to, name, inner, 1, 0);
	} else if (!word(r, "false") && !word(r, "null")) {
		if (!number(r, &n, &ns))
			return false;
		set_number(to, name, inner, n, ns);
	}
	return true;
}

static bool object(struct reader *r, struct event *to, int depth)
{
	char name[NAME];

	if (depth == DEPTH || !is(r, '{'))
		return false;
	if (is(r, '}'))
		return true;
	do
		if (!text(r, name, sizeof(name)) || !is(r, ':') || !value(r, to, name, depth + 1))
			return false;
	while (is(r, ','));
	return is(r, '}');
}

bool event_read(const char *line, size_t n, struct event *to)
{
	struct reader r = { line, line + n };

	*to = (struct event){ .tid = 0 };
	return object(&r, to, 0);
}
