/* Bases of segments. That of FS comes along with a G, and so does that of GS where user code can
 * load it; all else the kernel keeps for a kernel thread, and hands on to those that it makes. */
#include "segments.h"

#include <asm/prctl.h>
#include <sys/syscall.h>

#include "io.h"
#include "tls.h"
#include "wire.h"

/* Younger than some headers. */
enum { ARCH_SET_CPUID_ = 0x1012, ARCH_REQ_XCOMP_PERM_ = 0x1023 };

static bool keeps(long code)
{
	return (code == ARCH_SET_GS && !arch_loads_bases()) || code == ARCH_SET_CPUID_;
}

bool segments_change(long nr, const long *a)
{
	return (nr == SYS_arch_prctl && keeps(a[0])) || nr == SYS_set_thread_area;
}

void segments_ask(long code)
{
	if (code == ARCH_REQ_XCOMP_PERM_)
		core_tiles();
}

EXPORT int arch_prctl(int code, unsigned long at)
{
	const long a[] = { code, (long)at };

	if (served())
		segments_ask(code);
	state_kept(SYS_arch_prctl, a);
	return real_table.arch_prctl(code, at);
}
