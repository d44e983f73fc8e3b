/* Where variables stand of which a process that does little touches many pages: a page costs more
 * than what is on it. */
#ifndef HEDDLE_EARLY_H
#define HEDDLE_EARLY_H

/* EARLY: of a variable that is written at the start of every process, or in every fork: it stands
 * with the others on the page that the loader has written to already. */
#define EARLY __attribute__((section(".data.early")))

/* FORKED: of one that the child of a process with threads sets back: with the others, on the next
 * page. FORKS: of a function that does so: their text stands together. */
#define FORKED __attribute__((section(".data.forked")))
#define FORKS __attribute__((cold))

#endif
