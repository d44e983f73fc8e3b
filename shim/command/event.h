/* One event of a trace: a line of the file that heddle writes. Whoever wrote the file, nothing of
 * it is believed: numbers are bounded, text is cut. */
#ifndef HEDDLE_COMMAND_EVENT_H
#define HEDDLE_COMMAND_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { EVENT_TEXT = 48 };

/* Of what stands in "args" under a name, too. */
#define EVENT_NUMBERS(X)                                                                           \
	X(pid)                                                                                     \
	X(tid)                                                                                     \
	X(ts) /* ns */                                                                             \
	X(dur)                                                                                     \
	X(g)                                                                                       \
	X(by)                                                                                      \
	X(on)                                                                                      \
	X(back)                                                                                    \
	X(open)                                                                                    \
	X(lost)                                                                                    \
	X(unsure)                                                                                  \
	X(whole)                                                                                   \
	X(cut)                                                                                     \
	X(procs)                                                                                   \
	X(ns)                                                                                      \
	X(switches)                                                                                \
	X(parks)                                                                                   \
	X(created)                                                                                 \
	X(finished)

struct event {
	char ph[4], name[EVENT_TEXT], cat[EVENT_TEXT];
	char end[EVENT_TEXT], called[EVENT_TEXT]; /* of args: end, name */
#define X(name) uint64_t name;
	EVENT_NUMBERS(X)
#undef X
	uint64_t args_pid;
};

/* event_read: false: the line is no whole object. */
bool event_read(const char *line, size_t n, struct event *to);

#endif
