/* Raw system calls: no errno, no cancellation point, no libc. The result is the
 * kernel's: a value, or -errno. */
#ifndef HEDDLE_ARCH_SYSCALL_H
#define HEDDLE_ARCH_SYSCALL_H

#include <asm/unistd.h>

static inline long arch_syscall6(long nr, long a, long b, long c, long d, long e, long f)
{
	long ret;
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long arch_syscall4(long nr, long a, long b, long c, long d)
{
	long ret;
	register long r10 __asm__("r10") = d;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c), "r"(r10)
			 : "rcx", "r11", "memory");
	return ret;
}

static inline long arch_syscall3(long nr, long a, long b, long c)
{
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(nr), "D"(a), "S"(b), "d"(c)
			 : "rcx", "r11", "memory");
	return ret;
}

/* arch_owncall: one that the embedder makes beside the program's, which knows nothing of it:
 * if a filter stops it by SIGSYS, that finds it at arch_owncall_made. */
long arch_owncall(long nr, long a, long b, long c, long d, long e, long f);
extern const char arch_owncall_made[];

#endif
