/* System calls that a library makes by an instruction of its own, not through glibc. */
#ifndef HEDDLE_INLINE_H
#define HEDDLE_INLINE_H

/* inline_futexes: those of libgomp's futexes, if it is there, come to us from now on. Once in the
 * life of a process and its children.
 * Context  the only thread. */
void inline_futexes(void);

#endif
