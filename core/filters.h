/* Calls that nobody but heddle makes. Once the program filters system calls there are none, for a
 * filter may be made to end who makes one that it does not know. */
#ifndef HEDDLE_FILTERS_H
#define HEDDLE_FILTERS_H

#include <stdbool.h>

/* filters_look: may one be made? Then filters_looked follows it. */
bool filters_look(void);
void filters_looked(void);

/* filters_there: does the program filter, as far as is known? filters_set: it is about to; none of
 * those calls is under way afterwards. */
bool filters_there(void);
void filters_set(void);
void filters_forked(void);

#endif
