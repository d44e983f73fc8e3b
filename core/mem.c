/* The three functions that compilers call for copies and clears. The core has its own,
 * so that it never enters libc, whose text may be preempted and whose symbols may be
 * somebody's. Sizes here are small; speed is not the point.
 *
 * The empty asm keeps a compiler from seeing that a loop is a copy, and calling us. */
#include <stddef.h>

#define OPAQUE() __asm__ volatile("")

void *memset(void *to, int c, size_t n) __attribute__((visibility("hidden")));
void *memcpy(void *restrict to, const void *restrict from, size_t n)
	__attribute__((visibility("hidden")));
void *memmove(void *to, const void *from, size_t n) __attribute__((visibility("hidden")));

void *memset(void *to, int c, size_t n)
{
	unsigned char *t = to;
	while (n--) {
		*t++ = (unsigned char)c;
		OPAQUE();
	}
	return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;
	while (n--) {
		*t++ = *f++;
		OPAQUE();
	}
	return to;
}

void *memmove(void *to, const void *from, size_t n)
{
	unsigned char *t = to;
	const unsigned char *f = from;
	if (t <= f || t >= f + n)
		return memcpy(to, from, n);
	while (n--) {
		t[n] = f[n];
		OPAQUE();
	}
	return to;
}
