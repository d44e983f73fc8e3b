/* What the core asks of the kernel, by raw system calls only. Owns no state but the
 * answers that never change. Refuses policy: callers decide what a failure means.
 * All functions return a value or -errno. Fault injection (debug builds) sits here:
 * each call that can fail for want of resources passes through fault(). */
#ifndef HEDDLE_OS_H
#define HEDDLE_OS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "atomic.h"

enum {
	OS_AT_PAGESZ = 6,
	OS_AT_HWCAP2 = 26,
	OS_AT_SYSINFO_EHDR = 33,
	OS_AT_MINSIGSTKSZ = 51,
};

/* os_auxv: the entry of the kernel's auxiliary vector, or 0. */
uint64_t os_auxv(uint64_t type);

/* nanotime: CLOCK_MONOTONIC in ns, through the vDSO where there is one. Any context. */
uint64_t nanotime(void);

/* os_clock: the clock of that id in ns, or 0 if it cannot be read. */
uint64_t os_clock(int clock);

/* os_threadclock: the cpu time that a thread of this process has used, in ns; 0 if gone. */
uint64_t os_threadclock(int32_t tid);

/* os_threadasleep: true if the kernel says that this thread sleeps (S or D), not that it
 * runs, waits for a cpu, or is stopped. Costs an open, a read and a close in /proc. */
bool os_threadasleep(int32_t tid);

/* os_threadpc: where in its text a thread of this process sleeps in the kernel; 0: it does not,
 * or the kernel does not say. */
uintptr_t os_threadpc(int32_t tid);

/* os_reserve: len bytes of zeroed memory, committed by touch, never as huge pages.
 * Returns  the address, or -errno cast. Test with os_failed(). */
void *os_reserve(size_t len);

/* os_executable: code may run there. */
int os_executable(void *at, size_t len);
void os_release(void *at, size_t len);

static inline bool os_failed(const void *at)
{
	return (uintptr_t)at >= (uintptr_t)-4095;
}

/* os_guard: makes [at, at+len) fault when touched; without a mapping of its own where
 * the kernel can (6.13), else by mprotect. os_unguard takes it back. */
int os_guard(void *at, size_t len);
int os_unguard(void *at, size_t len);

/* os_discard: gives the pages back; they read as zero afterwards. */
void os_discard(void *at, size_t len);

/* futexsleep: blocks the kernel thread while *at == value, ns < 0 without end.
 * Returns  0 (perhaps spuriously), -ETIMEDOUT, -EINTR or -EAGAIN. */
int futexsleep(ATOMIC(uint32_t) *at, uint32_t value, int64_t ns);

/* futexwakeup: wakes up to n kernel threads that sleep on at. */
void futexwakeup(ATOMIC(uint32_t) *at, int n);

/* The same on a word that other processes have mapped, too. */
int futexsleep_shared(ATOMIC(uint32_t) *at, uint32_t value, int64_t ns);
void futexwakeup_shared(ATOMIC(uint32_t) *at, int n);

/* os_membarrier: every thread of this process passes a full barrier between the call and the
 * return. False if the kernel refuses. */
bool os_membarrier(void);

int32_t os_gettid(void);
void os_yield(void);

/* os_timerslack: how late the kernel may end this thread's timed sleeps. */
void os_timerslack(uint64_t ns);

/* os_tgkill: sends sig to one thread of this process; a thread that is gone is no error. False: the
 * user's limit on pending signals is reached (RLIMIT_SIGPENDING). */
bool os_tgkill(int32_t tid, int sig);

/* os_enlarge: a call that may make a file of ours larger than the program's may be (RLIMIT_FSIZE):
 * then it fails, as such calls do, but the signal that says so is taken back: it was never the
 * program's. */
long os_enlarge(long nr, long fd, long a, long b, long c);

/* os_sigmask: sets this kernel thread's mask; returns the one before. SIG_CREDENTIALS, by which
 * every kernel thread is told of new ones wherever it is, is never blocked. */
enum { SIG_CREDENTIALS = 33 };
uint64_t os_sigmask(uint64_t mask);

/* os_owntable: gives the calling thread a table of descriptors of its own, empty: what it
 * opens then takes no number of the program's. False, and nothing has changed, if the
 * kernel refuses any part of it. One thread of a process. */
bool os_owntable(void);

/* os_jointable: the calling thread was cloned by that one, and has its table. One, too. */
void os_jointable(void);

/* os_fetchfd: a descriptor of the program's, brought to the table of the calling thread.
 * Returns  its number there; fd itself in threads that share the program's; or -errno. */
int os_fetchfd(int fd);
void os_dropfetched(int there, int fd);

/* os_forked: in the child of a fork. */
void os_forked(void);

/* os_readfile: reads at most len - 1 bytes of a small file and ends them with 0. */
int os_readfile(const char *path, char *buf, size_t len);

/* os_write2: writes to standard error, once, whatever comes of it. */
void os_write2(const char *text, size_t len);

void os_abort(void) __attribute__((noreturn));

void osinit(void);
void arch_init(void);

#endif
