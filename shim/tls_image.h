/* Thread-local variables of a thread that is to be used again. */
#ifndef HEDDLE_TLS_IMAGE_H
#define HEDDLE_TLS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>

/* tls_init: when the first thread is about to be created. */
void tls_init(void);

/* tls_size: what static storage, of all libraries so far, takes below an FS base. */
size_t tls_size(void);

/* tls_call_destructors: those of C++'s thread_local objects, on the running thread. */
void tls_call_destructors(void);

/* tls_reset: every module's variables, but libc's and ours, as in a fresh thread. made: what
 * tls_seen said when glibc was about to make the thread. False: of some it is not known where they
 * are. Context  between loader_take and loader_letgo. */
unsigned long long tls_seen(void);
bool tls_reset(unsigned long long made, bool asks);

/* tls_asks: does it ask the loader where they are? Then loader_take must say so. */
bool tls_asks(void);

#endif
