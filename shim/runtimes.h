/* Runtimes in the program that heddle cannot serve. */
#ifndef HEDDLE_RUNTIMES_H
#define HEDDLE_RUNTIMES_H

#include <stdbool.h>
#include <stdint.h>

/* runtime_refused: the reason why the program runs natively; NULL if there is none. Calls no
 * malloc. */
const char *runtime_refused(void);

#endif
