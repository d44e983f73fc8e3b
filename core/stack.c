/* Stacks for Gs, cut out of large arenas. Owns the arenas, the free lists and the table
 * that leads from an address back to its slot. Refuses to shrink: an arena is kept for
 * the life of the process (it costs address space only; stackscavenge gives back the
 * pages), and a stack that the program brought itself never comes here.
 * Next: os_guard in os.h, then harvesting in shim/, the main caller.
 *
 * An arena is a row of slots of one class, which is a stride and a size of guard:
 *
 *      | guard | stack of slot 0 ... hot top | guard | stack of slot 1 ... hot top | guard |
 *
 * A guard needs a page of page table of its own, and so does the hot top; one such page
 * (4 KiB) maps 2 MiB. The hot top of a slot and the guard of the next are neighbours, so
 * the arena begins where no such pair is cut by a multiple of 2 MiB, and an 8 MiB stack
 * costs one page of page table, where an alignment of its own would make it two.
 *
 * The slot's records are apart from the stacks: a program that writes to a stack of a
 * thread that has ended spoils that stack only. */
#include "stack.h"

#include <asm/errno.h>

#include "atomic.h"
#include "early.h"
#include "lock.h"
#include "os.h"
#include "preempt.h"
#include "sched.h"

enum {
	PAGE = 4096,
	TABLE_SPAN = PAGE / 8 * PAGE, /* what one page of page table maps */
	HOT = 2 * PAGE, /* stays with a scavenged stack: TLS, and the frames of a short life */

	/* Stacks that end at one offset of a page meet in a few sets of the L1 cache, which
	 * the offset selects: each switch would evict what the last one loaded. So the hi of
	 * neighbours differs by a line. Sixteen of them, not the sixty-four of a whole page:
	 * the hot top of most threads shall still fit the last page. */
	LINE = 64,
	COLOURS = 16,
	COLOUR_ROOM = (COLOURS - 1) * LINE,

	/* An arena adds a quarter of what its class has. Larger steps would save few calls,
	 * and count against a program with a limit on its address space. */
	ARENA_GROWTH = 4,
	ARENA_MIN_SLOTS = 8,
	ARENA_MIN_BYTES = 1 << 20,

	MAX_ARENAS = 8192,
	MAX_CLASSES = 1024,
};

/* More than a process can have; also keeps every sum below from overflowing. */
static const size_t max_bytes = (size_t)1 << 46;

struct slot {
	struct slot *next; /* of the list it is on; &taken while handed out */
	struct arena *arena; /* fixed when the slot is first handed out */
};

struct arena {
	struct stackclass *class;
	uintptr_t base; /* where slot 0's guard begins */
	size_t n;
	size_t fresh; /* slots from here on have never been used */
	struct slot slots[];
};

struct stackclass {
	size_t stride; /* guard, stack and colour */
	size_t guard;
	size_t slots; /* in all its arenas */
	struct slot *guarded; /* free, the guard in place; the last one freed comes first */
	struct slot *bare; /* free, but the kernel refused the guard */
	struct arena *newest; /* the only one with fresh slots */
};

static struct mutex stacklock = MUTEX_INIT(RANK_STACK);
/* Under stacklock: */
static struct stackclass classes[MAX_CLASSES];
FORKED static size_t nclasses;
static struct arena *arenas[MAX_ARENAS]; /* by address */
FORKED static size_t narenas;
FORKED static ATOMIC(size_t) mapped; /* read without it, by reports */

static struct slot taken;
static bool executable;

void stackexecutable(void)
{
	executable = true;
}

static size_t pages(size_t bytes)
{
	return (bytes + PAGE - 1) / PAGE;
}

/* Rounds up to a size with three significant bits behind the first. A free stack serves
 * only its own class, so a program that varies its sizes must not have too many; the price,
 * at most an eighth, is address space. From 2 MiB on, this also makes all strides multiples
 * of 256 KiB, which arena_reserve_locked aligns by. */
static size_t roundclass(size_t n)
{
	if (n <= 8)
		return n;
	size_t step = (size_t)1 << (63 - __builtin_clzl(n - 1) - 3);
	return (n + step - 1) & ~(step - 1);
}

static struct stackclass *class_get_locked(size_t size, size_t guard)
{
	size_t gap = roundclass(pages(guard));
	size_t stride = roundclass(gap + pages(size + COLOUR_ROOM));

	for (size_t i = 0; i < nclasses; i++)
		if (classes[i].stride == stride * PAGE && classes[i].guard == gap * PAGE)
			return &classes[i];
	if (nclasses == MAX_CLASSES)
		return NULL;
	struct stackclass *c = &classes[nclasses++];
	/* Of a parent's. */
	*c = (struct stackclass){ .stride = stride * PAGE, .guard = gap * PAGE };
	return c;
}

/* The last arena that begins at or below at, counted from 1; 0: none. */
static size_t arena_rank_locked(uintptr_t at)
{
	size_t lo = 0, hi = narenas;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		if (arenas[mid]->base <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct arena *arena_reserve_locked(struct stackclass *c, size_t n)
{
	/* Every slot begins at a multiple of align, less below; align divides TABLE_SPAN. So
	 * with a guard that ends on a multiple, guard and top of the neighbour share a page of
	 * page table; of a large guard half is left on either side. Slots smaller than
	 * TABLE_SPAN share such pages anyway. */
	size_t align = PAGE, below = 0;
	if (c->stride >= TABLE_SPAN) {
		align = c->stride & -c->stride;
		if (align > TABLE_SPAN)
			align = TABLE_SPAN;
		below = c->guard < align / 2 ? c->guard : align / 2;
	}
	size_t len = n * c->stride + align - PAGE;

	struct arena *a = os_reserve(sizeof(*a) + n * sizeof(a->slots[0]));
	if (os_failed(a))
		return NULL;
	void *at = os_reserve(len);
	if (os_failed(at)) {
		os_release(a, sizeof(*a) + n * sizeof(a->slots[0]));
		return NULL;
	}
	if (executable)
		os_executable(at, len);
	a->class = c;
	a->base = (((uintptr_t)at + below + align - 1) & ~(align - 1)) - below;
	a->n = n;
	st_rlx(&mapped, ld_rlx(&mapped) + len);
	return a;
}

static bool arena_add_locked(struct stackclass *c)
{
	size_t n = c->slots / ARENA_GROWTH;
	struct arena *a = NULL;

	if (narenas == MAX_ARENAS)
		return false;
	if (n < ARENA_MIN_BYTES / c->stride)
		n = ARENA_MIN_BYTES / c->stride;
	if (n < ARENA_MIN_SLOTS)
		n = ARENA_MIN_SLOTS;
	/* Near a limit (RLIMIT_AS, strict overcommit) take what there is: the program could
	 * have had that many threads without us. */
	for (; n > 0 && !a; n /= 2)
		a = arena_reserve_locked(c, n);
	if (!a)
		return false;

	size_t rank = arena_rank_locked(a->base);
	for (size_t i = narenas++; i > rank; i--)
		arenas[i] = arenas[i - 1];
	arenas[rank] = a;
	c->newest = a;
	c->slots += a->n;
	return true;
}

static void push(struct slot **list, struct slot *s)
{
	s->next = *list;
	*list = s;
}

static struct slot *pop(struct slot **list)
{
	struct slot *s = *list;

	if (s) {
		*list = s->next;
		s->next = &taken;
	}
	return s;
}

static struct slot *slot_take_locked(struct stackclass *c, bool *guarded)
{
	struct slot *s = pop(&c->guarded);

	*guarded = s != NULL || c->guard == 0;
	if (!s)
		s = pop(&c->bare);
	if (s)
		return s;
	if ((!c->newest || c->newest->fresh == c->newest->n) && !arena_add_locked(c))
		return NULL;
	s = &c->newest->slots[c->newest->fresh++];
	s->arena = c->newest;
	s->next = &taken;
	return s;
}

/* Whoever calls from the program is pinned for so long, and no longer: the calls out of the lock
 * may last. */
static struct g *stack_lock(void)
{
	struct g *self = core_sigplace() == SIGPLACE_CORE ? NULL : getg();

	(void)enter(self);
	lock(&stacklock);
	return self;
}

static void stack_unlock(struct g *self)
{
	unlock(&stacklock);
	outof(self);
}

int stackalloc(struct stack *st, size_t size, size_t guard)
{
	struct stackclass *c;
	struct slot *s = NULL;
	struct g *self;
	bool guarded = false;

	if (size == 0 || size > max_bytes || guard > max_bytes)
		return -EINVAL;
	self = stack_lock();
	c = class_get_locked(size, guard);
	if (c)
		s = slot_take_locked(c, &guarded);
	stack_unlock(self);
	if (!s)
		return -ENOMEM;

	size_t i = (size_t)(s - s->arena->slots);
	uintptr_t at = s->arena->base + i * c->stride;
	/* Out of the lock: the call may wait for the kernel's lock on the address space. The
	 * slot is ours, and one that is put back half guarded is guarded anew by the next. */
	if (!guarded && os_guard((void *)at, c->guard) < 0) {
		self = stack_lock();
		push(&c->bare, s);
		stack_unlock(self);
		return -ENOMEM;
	}
	st->lo = at + c->guard;
	st->hi = at + c->stride - i % COLOURS * LINE;
	return 0;
}

static struct slot *slot_find_locked(const struct stack *st)
{
	size_t rank = arena_rank_locked(st->lo);
	if (rank == 0)
		return NULL;
	struct arena *a = arenas[rank - 1];
	size_t i = (st->lo - a->base) / a->class->stride;
	return i < a->fresh ? &a->slots[i] : NULL;
}

size_t stackguard(const struct stack *st)
{
	struct g *self = stack_lock();
	const struct slot *s = slot_find_locked(st);
	size_t guard = s ? s->arena->class->guard : 0;

	stack_unlock(self);
	return guard;
}

void stackfree(const struct stack *st)
{
	static const char wrong[] = "heddle: stackfree of a stack that is not in use\n";
	struct slot *s;
	struct g *self = stack_lock();

	s = slot_find_locked(st);
	/* In every build: to go on would be to give one stack to two threads. */
	if (!s || s->next != &taken) {
		os_write2(wrong, sizeof(wrong) - 1);
		os_abort();
	}
	push(&s->arena->class->guarded, s);
	stack_unlock(self);
}

void stackscavenge(const struct stack *st, uintptr_t base)
{
	uintptr_t hot = pages(st->hi) * PAGE - HOT;

	if (base != 0 && hot > base / PAGE * PAGE - PAGE)
		hot = base / PAGE * PAGE - PAGE;
	if (st->lo != 0 && hot > st->lo)
		os_discard((void *)st->lo, hot - st->lo);
}

size_t stackmapped(void)
{
	return ld_rlx(&mapped);
}

FORKS void stack_forked(void)
{
	nclasses = narenas = 0;
	st_rlx(&mapped, 0);
	st_rlx(&stacklock.key, 0);
	st_rlx(&stacklock.sleepers, 0);
}
