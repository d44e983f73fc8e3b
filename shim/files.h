/* The files that the user asked for: of statistics, of a trace, of a record. They are opened when
 * the scheduler starts. A program that gives up its right to files before that (Landlock, as xz
 * does from 5.6 on) would have none: then they are opened first, and kept. */
#ifndef HEDDLE_FILES_H
#define HEDDLE_FILES_H

enum file { FILE_STATS, FILE_TRACE, FILE_RECORD, FILE_REPLAY, FILES };

/* files_keep: opens all that are asked for, high up; on the only thread, before the scheduler is
 * there. file_kept: such a one, which is the caller's from then on, or -1. file_open: the same, or
 * it is opened now; or -errno. files_forked: in the child of a fork, whose they are not. */
void files_keep(void);
int file_kept(enum file which);
int file_open(enum file which);

extern long files_keeper __attribute__((visibility("hidden")));
static inline void files_forked(void)
{
	files_keeper = 0;
}

/* file_high: the same file by a descriptor that is out of the program's way, if there is room. */
int file_high(int fd);

#endif
