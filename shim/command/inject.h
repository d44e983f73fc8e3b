/* The library beside this command, for LD_PRELOAD. */
#ifndef HEDDLE_COMMAND_INJECT_H
#define HEDDLE_COMMAND_INJECT_H

/* inject_value: what LD_PRELOAD is to be for a program to run under heddle, what is preloaded
 * already behind it; to be freed. NULL: it was said why not. */
char *inject_value(void);

#endif
