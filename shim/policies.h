/* The policy that HEDDLE_POLICY asks for. */
#ifndef HEDDLE_POLICIES_H
#define HEDDLE_POLICIES_H

struct core_config;
struct text;

/* policies_wanted: puts it into *to, and the seed; a file is loaded. One that cannot be had is said
 * on stderr, and the program runs under go. policies_row: of the table at the end. */
void policies_wanted(struct core_config *to);
void policies_row(struct text *t);

#endif
