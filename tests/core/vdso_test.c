/* The vDSO: real, absent, and with either kind of hash table. */
#include "vdso.h"

#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../test.h"
#include "os.h"

static const char clock_name[] = "__vdso_clock_gettime";

/* The line of /proc/self/maps that the kernel calls [vdso]. */
static bool vdso_lines(uintptr_t *lo, uintptr_t *hi)
{
	char line[512];
	FILE *f = fopen("/proc/self/maps", "r");
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f))
		found = strstr(line, "[vdso]") && sscanf(line, "%lx-%lx", lo, hi) == 2;
	if (f)
		fclose(f);
	return found;
}

/* A copy of the image, elsewhere, with one tag of its dynamic section struck out. */
static char *vdso_copy(Elf64_Sxword without)
{
	uintptr_t lo, hi;
	EXPECT(vdso_lines(&lo, &hi));
	char *copy = mmap(NULL, hi - lo, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			  0);
	EXPECT(copy != MAP_FAILED);
	memcpy(copy, (const void *)lo, hi - lo);

	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)copy;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)(copy + eh->e_phoff);
	for (int i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_DYNAMIC)
			continue;
		for (Elf64_Dyn *d = (Elf64_Dyn *)(copy + ph[i].p_offset); d->d_tag; d++)
			if (d->d_tag == without)
				d->d_tag = DT_DEBUG;
	}
	return copy;
}

static Elf64_Dyn *dynamic(char *image, Elf64_Sxword tag)
{
	const Elf64_Ehdr *eh = (const Elf64_Ehdr *)image;
	const Elf64_Phdr *ph = (const Elf64_Phdr *)(image + eh->e_phoff);

	for (int i = 0; i < eh->e_phnum; i++) {
		if (ph[i].p_type != PT_DYNAMIC)
			continue;
		for (Elf64_Dyn *d = (Elf64_Dyn *)(image + ph[i].p_offset); d->d_tag; d++)
			if (d->d_tag == tag)
				return d;
	}
	return NULL;
}

TEST(an_absent_vdso_is_no_symbol_and_no_text)
{
	uintptr_t lo = 1, hi = 2;

	/* Before osinit() there is no auxiliary vector, as on a kernel without a vDSO. */
	EXPECT(vdso_symbol(clock_name) == NULL);
	EXPECT(!vdso_text(&lo, &hi));
	EXPECT(lo == 0 && hi == 0);
}

TEST(what_is_no_elf_image_is_as_an_absent_one)
{
	static const char junk[4096] = "not an image";
	uintptr_t lo, hi;

	EXPECT(vdso_symbol_in(junk, clock_name) == NULL);
	EXPECT(!vdso_text_in(junk, &lo, &hi));
}

TEST(the_clock_it_finds_tells_the_time)
{
	struct timespec before, ours, after;

	osinit();
	int (*clock)(int,
		     struct timespec *) = (int (*)(int, struct timespec *))vdso_symbol(clock_name);
	EXPECT(clock != NULL);
	clock_gettime(CLOCK_MONOTONIC, &before);
	EXPECT_EQ(clock(CLOCK_MONOTONIC, &ours), 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	int64_t t0 = before.tv_sec * 1000000000 + before.tv_nsec;
	int64_t t1 = ours.tv_sec * 1000000000 + ours.tv_nsec;
	int64_t t2 = after.tv_sec * 1000000000 + after.tv_nsec;
	EXPECT(t0 <= t1 && t1 <= t2);
}

TEST(only_a_whole_name_is_found)
{
	osinit();
	EXPECT(vdso_symbol("__vdso_clock_gettim") == NULL);
	EXPECT(vdso_symbol("__vdso_clock_gettime_") == NULL);
	EXPECT(vdso_symbol("") == NULL);
	/* The name of its version is in the symbol table too, as an object. */
	EXPECT(vdso_symbol("LINUX_2.6") == NULL);
}

TEST(the_text_range_holds_the_clock_and_lies_in_the_vdso)
{
	uintptr_t lo, hi, maplo, maphi;

	osinit();
	EXPECT(vdso_text(&lo, &hi));
	EXPECT(vdso_lines(&maplo, &maphi));
	EXPECT(maplo <= lo && lo < hi && hi <= maphi);
	uintptr_t clock = (uintptr_t)vdso_symbol(clock_name);
	EXPECT(lo <= clock && clock < hi);
}

TEST(an_image_is_read_where_it_lies)
{
	uintptr_t lo, hi;

	EXPECT(vdso_lines(&lo, &hi));
	char *copy = vdso_copy(DT_NULL);
	void *here = vdso_symbol_in(copy, clock_name);
	void *there = vdso_symbol_in((const void *)lo, clock_name);
	EXPECT(here && there);
	EXPECT_EQ((char *)here - copy, (uintptr_t)there - lo);
}

TEST(the_gnu_hash_table_alone_is_enough)
{
	char *copy = vdso_copy(DT_HASH);

	if (!dynamic(copy, DT_GNU_HASH)) {
		test_say("  this kernel's vDSO has no DT_GNU_HASH");
		return;
	}
	EXPECT(vdso_symbol_in(copy, clock_name) != NULL);
	EXPECT(vdso_symbol_in(copy, "nobody") == NULL);
}

TEST(the_old_hash_table_alone_is_enough)
{
	/* Newer kernels have no DT_HASH. Only its second word, the count of symbols, is looked
	 * at; one is enough to see that it is, and the clock is not the first. */
	static uint32_t table[2] = { 1, 1 };
	char *copy = vdso_copy(DT_HASH);
	Elf64_Dyn *gnu = dynamic(copy, DT_GNU_HASH);

	if (!gnu) {
		test_say("  the vDSO has DT_HASH alone: the other tests are this one");
		return;
	}
	gnu->d_tag = DT_HASH;
	gnu->d_un.d_ptr = (uintptr_t)table - (uintptr_t)copy;
	EXPECT(vdso_symbol_in(copy, clock_name) == NULL);
	char *whole = vdso_copy(DT_HASH);
	while (!vdso_symbol_in(copy, clock_name) && table[1] < 64)
		table[1]++;
	EXPECT_EQ((char *)vdso_symbol_in(copy, clock_name) - copy,
		  (char *)vdso_symbol_in(whole, clock_name) - whole);
}

TEST(an_image_without_tables_has_no_symbols)
{
	EXPECT(vdso_symbol_in(vdso_copy(DT_SYMTAB), clock_name) == NULL);
	EXPECT(vdso_symbol_in(vdso_copy(DT_STRTAB), clock_name) == NULL);
	char *copy = vdso_copy(DT_HASH);
	Elf64_Dyn *gnu = dynamic(copy, DT_GNU_HASH);
	if (gnu)
		gnu->d_tag = DT_DEBUG;
	EXPECT(vdso_symbol_in(copy, clock_name) == NULL);
}
