/* The hot paths make no system call: they run with all calls but a few forbidden on their
 * kernel thread, of which there is one that runs Gs (GOMAXPROCS is 1). */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "host.h"
#include "sched.h"
#include "syscall.h"
#include "tls.h"

enum { TIMES = 2000 };

static struct group grp;
static ATOMIC(uint32_t) word;
static ATOMIC(uint32_t) turn;

/* Left are what a test's end needs, the end of a preempted slice's signal frame, and what loads the
 * FS base where the cpu does not let us: as many as there are switches. */
static void forbid_system_calls(void)
{
	const uint32_t loads = arch_fsgsbase ? SYS_getppid : SYS_arch_prctl;
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 5, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 4, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigreturn, 3, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 2, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, loads, 1, 0),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog prog = { sizeof(filter) / sizeof(filter[0]), filter };

	EXPECT_EQ(arch_syscall6(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0, 0), 0);
	EXPECT_EQ(arch_syscall3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&prog), 0);
}

static void yields(void *arg)
{
	(void)arg;
	for (int i = 0; i < TIMES; i++)
		gosched();
	group_done(&grp);
}

static void ends(void *arg)
{
	(void)arg;
	group_done(&grp);
}

static void plays(void *arg)
{
	uint32_t me = (uint32_t)(uintptr_t)arg;

	for (int i = 0; i < TIMES; i++) {
		uint32_t now;
		while ((now = ld_acq(&turn)) % 2 != me)
			futex_wait(&turn, now, (uint32_t)FUTEX_ANY, NULL, 0);
		add_sc(&turn, 1);
		futex_wake(&turn, 1, (uint32_t)FUTEX_ANY, 0);
	}
	group_done(&grp);
}

static void all_paths(void)
{
	grp.left = 4;
	go(yields, NULL);
	go(yields, NULL);
	go(plays, (void *)0);
	go(plays, (void *)1);
	group_wait(&grp);
	for (int i = 0; i < TIMES; i++) {
		grp.left = 1;
		go(ends, NULL);
		group_wait(&grp);
	}
	for (int i = 0; i < TIMES; i++) {
		EXPECT_EQ(futex_wait(&word, 1, (uint32_t)FUTEX_ANY, NULL, 0), -11);
		EXPECT_EQ(futex_wake(&word, 1, (uint32_t)FUTEX_ANY, 0), 0);
		goyield();
		entersyscall();
		arch_syscall3(SYS_getppid, 0, 0, 0);
		exitsyscall();
	}
}

TEST(switch_spawn_park_and_the_brackets_of_a_call_make_no_system_call)
{
	if (!can_preempt()) {
		skipped("the sanitizer's runtime makes calls of its own");
		return;
	}
	start_with(1, without_sysmon);
	/* Once with leave: the Gs, their stacks and their pages are there after it. */
	all_paths();
	forbid_system_calls();
	all_paths();
}
