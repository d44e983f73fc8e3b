/* Memory that the program points at where natively the kernel would look: what cannot be read or
 * written there is an error of the call (EFAULT), not a fault. */
#ifndef HEDDLE_USER_H
#define HEDDLE_USER_H

#include <stdbool.h>
#include <stddef.h>

/* user_fetch: what is there, by the kernel's hand. user_store: the reverse. 0 or -EFAULT. Any
 * context. */
long user_fetch(void *to, const void *from, size_t n);
long user_store(void *to, const void *from, size_t n);

/* user_readable, user_writable: may n bytes be read there, or written? For hot paths: of a page
 * that was so once it is believed, without asking again; who unmapped it since gets the fault. 0 or
 * -EFAULT. Any context. */
long user_readable(const void *at, size_t n);
long user_writable(const void *at, size_t n);

#endif
