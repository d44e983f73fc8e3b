/* What a trace comes to: time by state of each thread, the longest waits for a cpu, the locks that
 * were waited for longest; and whether it agrees with what the scheduler counted. */
#ifndef HEDDLE_COMMAND_DIGEST_H
#define HEDDLE_COMMAND_DIGEST_H

#include <stdbool.h>
#include <stdio.h>

/* digest_print: of the trace in `in`, `top` rows of each table. False: that is none of heddle's. */
bool digest_print(FILE *in, FILE *out, int top);

#endif
