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

#endif
