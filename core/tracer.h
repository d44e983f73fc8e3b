/* The trace: what trace.h records, written to a file while the program runs, as Chrome's trace
 * format has it. A kernel thread of its own does it, in sysmon's table of descriptors, so that
 * neither the program nor sysmon waits for a disk. Without tracing, or without a table of
 * sysmon's own, there is none, and that is said.
 *
 * The file is a whole array of JSON after each write, and is written about each 20 ms while
 * something happens: who kills the process finds all but the last of it. */
#ifndef HEDDLE_TRACER_H
#define HEDDLE_TRACER_H

#include <stdbool.h>
#include <stdint.h>

struct g;
struct m;

enum { TRACER_PATH = 1024 };

/* What a G is called: at most 15 letters; false: it has no name. Any kernel thread; the G may be
 * ending. */
enum { TRACE_NAME_LEN = 16 };
typedef bool tracer_name(const struct g *gp, char to[TRACE_NAME_LEN]);

/* tracer_init: with a path, recording begins. fd: that file, in the program's table, if it is open
 * already, or -1. limit: bytes of a file at most, this one's or one's of tracer_begin; 0: none. A
 * file that reaches it is ended, and that is said. tracer_start: by sysmon, which has a table of
 * its own or (own false) has not: the file is made. */
void tracer_init(const char *path, int fd, uint64_t limit, tracer_name *name);
void tracer_start(bool own);

/* tracer_begin, tracer_end: by sysmon, while the program runs. Return 0: begun, tracer_over says
 * when it is done, and then *error; or an error number. One at a time. */
int32_t tracer_begin(const char *path);
int32_t tracer_end(void);
bool tracer_over(int32_t *error);

/* tracer_flush: what was recorded before is in the file, or will not be: the writer has two
 * seconds. Any kernel thread; blocks it. */
void tracer_flush(void);

/* tracer_renamed: the program gave gp another name. tracer_names: of one that begins to be, by whom
 * mp is at work for. */
void tracer_renamed(struct g *gp);
void tracer_names(struct m *mp, struct g *gp);

/* tracer_threads: kernel threads that it has. tracer_forked: in the child of a fork. */
int32_t tracer_threads(void);
void tracer_forked(void);

#endif
