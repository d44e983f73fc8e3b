/* makecontext, and the mask of getcontext, setcontext and swapcontext, which are in contexts.S. */
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <ucontext.h>

#include "io.h"
#include "os.h"
#include "signals.h"
#include "thread.h"
#include "user.h"

_Static_assert(offsetof(ucontext_t, uc_mcontext.gregs[REG_R8]) == 40 &&
		       offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]) == 168 &&
		       offsetof(ucontext_t, uc_mcontext.fpregs) == 224 &&
		       offsetof(ucontext_t, __fpregs_mem) == 424 &&
		       offsetof(ucontext_t, __fpregs_mem.mxcsr) == 448,
	       "contexts.S has these offsets");

typedef int getter(ucontext_t *);
typedef int setter(const ucontext_t *);
typedef int swapper(ucontext_t *, const ucontext_t *);

getter *getcontext_real(void);
setter *setcontext_real(void);
swapper *swapcontext_real(void);
int context_mask(ucontext_t *before, const ucontext_t *next);
void context_over(void);

static bool ours(void)
{
	return served() && thread_self();
}

getter *getcontext_real(void)
{
	return ours() ? NULL : real_table.getcontext;
}

setter *setcontext_real(void)
{
	return ours() ? NULL : real_table.setcontext;
}

swapper *swapcontext_real(void)
{
	return ours() ? NULL : real_table.swapcontext;
}

/* Of the running thread: kept in *before, and then *next's, as rt_sigprocmask has it. */
int context_mask(ucontext_t *before, const ucontext_t *next)
{
	uint64_t mine = gmask(), mask = mine;

	if (next && user_readable(&next->uc_sigmask, SIGSET_BYTES) != 0)
		return (int)io_answer(-EFAULT);
	if (next)
		memcpy(&mask, &next->uc_sigmask, sizeof(mask));
	if (before)
		memcpy(&before->uc_sigmask, &mine, sizeof(mine));
	signals_return(mask);
	return 0;
}

/* From the stack's top downwards: uc_link, the arguments that no register takes, where the function
 * returns to. */
EXPORT void makecontext(ucontext_t *uc, void (*fn)(void), int n, ...)
{
	static const int registers[] = { REG_RDI, REG_RSI, REG_RDX, REG_RCX, REG_R8, REG_R9 };
	enum { IN_REGISTERS = sizeof(registers) / sizeof(*registers) };
	greg_t *regs = uc->uc_mcontext.gregs;
	size_t above = n > IN_REGISTERS ? (size_t)(n - IN_REGISTERS) : 0;
	uintptr_t top = (uintptr_t)uc->uc_stack.ss_sp + uc->uc_stack.ss_size;
	uintptr_t *sp = (uintptr_t *)((top - (above + 1) * sizeof(*sp)) & ~(uintptr_t)15) - 1;
	va_list args;

	sp[0] = (uintptr_t)context_over;
	sp[above + 1] = (uintptr_t)uc->uc_link;
	regs[REG_RSP] = (greg_t)sp;
	regs[REG_RIP] = (greg_t)fn;
	regs[REG_RBX] = (greg_t)&sp[above + 1];
	va_start(args, n);
	for (int i = 0; i < n; i++) {
		greg_t arg = va_arg(args, greg_t);
		if (i < IN_REGISTERS)
			regs[registers[i]] = arg;
		else
			sp[1 + i - IN_REGISTERS] = (uintptr_t)arg;
	}
	va_end(args);
}
