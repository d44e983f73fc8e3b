/* HEDDLE_STATS: a table on standard error when the process ends, or a line in a file. */
#ifndef HEDDLE_ENDING_H
#define HEDDLE_ENDING_H

/* ending_begin: the scheduler has started, and the table is wanted; in file, which stays valid, a
 * line for programs: words NAME=VALUE, a space between them. NULL: for people. ending_print: prints
 * it, once, in the process that began it; any context. ending_forked: the child of a fork has none.
 */
void ending_begin(const char *file);
void ending_print(void);
void ending_forked(void);

#endif
