/* The loader's list of objects, and its locks.
 *
 * Whoever walks through the list (dl_iterate_phdr) holds one, the program's callbacks as well, and
 * whoever loads or unloads an object for a moment; and another as long as he is at it, in which the
 * list says of a thread's variables what is not so: an object is there before its number is known
 * to be another's no more. glibc does not renew them in the child of a fork: who held one there is
 * not here to let it go. Natively neither a new thread needs them nor one that ends; so nobody
 * waits for them here either: who does not get both does without. */
#ifndef HEDDLE_LOADER_H
#define HEDDLE_LOADER_H

#include <link.h>
#include <stdbool.h>
#include <stddef.h>

/* loader_init: finds the lock; before there is a second thread, after real_resolve. */
void loader_init(void);

/* loader_walk: dl_iterate_phdr, glibc's own. */
int loader_walk(int (*fn)(struct dl_phdr_info *, size_t, void *), void *arg);

/* loader_take: may the caller walk through the list, without a wait for the program? Between two
 * loads, if it asks for variables. Then loader_letgo follows. Context: takes no signals; blocks for
 * others of ours that walk. */
bool loader_take(bool between);
void loader_letgo(bool between);

/* loader_forks: the caller is about to fork: waits for those of ours that walk, and none begins
 * until loader_forked, in the parent. loader_child: in the child, after once_forked; were there
 * other threads of ours? */
void loader_forks(void);
void loader_forked(void);
void loader_child(bool threads);

/* loader_lost: who has the list's lock is not in this process, or may not be: nobody walks any
 * more. */
bool loader_lost(void);

#endif
