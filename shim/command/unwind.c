/* libunwind's questions, answered from modules and memory: unwind.h. It reads what a stranger
 * wrote: each stack may cost only so many reads, and must grow. */
#include "unwind.h"

#include <libunwind.h>
#include <string.h>

/* Exported by libunwind for those who bring their own accessors, but in no header of it. */
#define search_table UNW_OBJ(dwarf_search_unwind_table)
extern int search_table(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int,
			void *);

enum { MAX_READS = 200 * 1000 };

struct walk {
	struct modules *ms;
	const struct regs *regs;
	int reads;
};

static int find_proc_info(unw_addr_space_t as, unw_word_t ip, unw_proc_info_t *info, int need,
			  void *arg)
{
	struct walk *w = arg;
	struct module *m = module_at(w->ms, ip);
	unw_dyn_info_t di;

	if (!m || m->table == 0)
		return -UNW_ENOINFO;
	memset(&di, 0, sizeof(di));
	di.start_ip = m->lo;
	di.end_ip = m->hi;
	di.format = UNW_INFO_FORMAT_REMOTE_TABLE;
	di.u.rti.segbase = m->segbase;
	di.u.rti.table_data = m->table;
	/* An entry is as long as a word. */
	di.u.rti.table_len = m->ntable;
	return search_table(as, ip, &di, info, need, arg);
}

static void put_unwind_info(unw_addr_space_t as, unw_proc_info_t *info, void *arg)
{
	(void)as;
	(void)info;
	(void)arg;
}

static int no_list(unw_addr_space_t as, unw_word_t *at, void *arg)
{
	(void)as;
	(void)at;
	(void)arg;
	return -UNW_ENOINFO;
}

static int access_mem(unw_addr_space_t as, unw_word_t at, unw_word_t *value, int write, void *arg)
{
	struct walk *w = arg;

	(void)as;
	if (write || ++w->reads > MAX_READS || !mem_read(w->ms->mem, at, value, sizeof(*value)))
		return -UNW_EINVAL;
	return 0;
}

static int access_reg(unw_addr_space_t as, unw_regnum_t reg, unw_word_t *value, int write,
		      void *arg)
{
	const struct regs *r = ((struct walk *)arg)->regs;

	(void)as;
	if (write)
		return -UNW_EREADONLYREG;
	switch (reg) {
	case UNW_X86_64_RIP:
		*value = r->rip;
		break;
	case UNW_X86_64_RSP:
		*value = r->rsp;
		break;
	case UNW_X86_64_RBP:
		*value = r->rbp;
		break;
	case UNW_X86_64_RBX:
		*value = r->rbx;
		break;
	case UNW_X86_64_R12:
		*value = r->r12;
		break;
	case UNW_X86_64_R13:
		*value = r->r13;
		break;
	case UNW_X86_64_R14:
		*value = r->r14;
		break;
	case UNW_X86_64_R15:
		*value = r->r15;
		break;
	default:
		*value = 0;
	}
	return 0;
}

static int access_fpreg(unw_addr_space_t as, unw_regnum_t reg, unw_fpreg_t *value, int write,
			void *arg)
{
	(void)as;
	(void)reg;
	(void)value;
	(void)write;
	(void)arg;
	return -UNW_EINVAL;
}

static int resume(unw_addr_space_t as, unw_cursor_t *cursor, void *arg)
{
	(void)as;
	(void)cursor;
	(void)arg;
	return -UNW_EINVAL;
}

static int proc_name(unw_addr_space_t as, unw_word_t at, char *to, size_t size, unw_word_t *in,
		     void *arg)
{
	(void)as;
	(void)at;
	(void)to;
	(void)size;
	(void)in;
	(void)arg;
	return -UNW_ENOINFO;
}

static unw_accessors_t accessors = {
	.find_proc_info = find_proc_info,
	.put_unwind_info = put_unwind_info,
	.get_dyn_info_list_addr = no_list,
	.access_mem = access_mem,
	.access_reg = access_reg,
	.access_fpreg = access_fpreg,
	.resume = resume,
	.get_proc_name = proc_name,
};

void unwind(struct modules *ms, const struct regs *r, struct stack *to)
{
	static unw_addr_space_t space;
	struct walk walk = { ms, r, 0 };
	unw_word_t ip, sp = 0, before;
	unw_cursor_t cursor;
	bool exact = r->exact;
	int more = 1;

	to->n = 0;
	to->cut = false;
	if (!space) {
		space = unw_create_addr_space(&accessors, 0);
		if (!space)
			return;
		unw_set_caching_policy(space, UNW_CACHE_GLOBAL);
	}
	if (unw_init_remote(&cursor, space, &walk) != 0)
		return;
	while (more > 0 && to->n < MAX_FRAMES) {
		before = sp;
		if (unw_get_reg(&cursor, UNW_REG_IP, &ip) != 0 || ip == 0 ||
		    unw_get_reg(&cursor, UNW_REG_SP, &sp) != 0 || (to->n > 1 && sp <= before))
			return;
		/* A call that does not return may be its function's last instruction. */
		to->pc[to->n++] = exact ? ip : ip - 1;
		exact = unw_is_signal_frame(&cursor) > 0;
		more = unw_step(&cursor);
	}
	to->cut = more != 0;
}
