/* The base frame of a thread: where pthread_exit's unwinding ends. These are glibc's, by
 * which pthread_cleanup_push works, in no header that we may include. */
#ifndef HEDDLE_BASE_H
#define HEDDLE_BASE_H

#include <pthread.h>

extern void __pthread_register_cancel(__pthread_unwind_buf_t *);
extern void __pthread_unregister_cancel(__pthread_unwind_buf_t *);
extern void __pthread_unwind_next(__pthread_unwind_buf_t *) __attribute__((noreturn));

/* base_setjmp: 0 the first time; another value when pthread_exit has unwound to here. */
extern int base_setjmp(void *buf, int savemask) __asm__("__sigsetjmp")
	__attribute__((returns_twice));

/* base_atfork: as pthread_atfork, which is each object's own, far from everything else. Nobody's,
 * if object is NULL: they stay. */
extern int base_atfork(void (*before)(void), void (*parent)(void), void (*child)(void),
		       void *object) __asm__("__register_atfork");

#endif
