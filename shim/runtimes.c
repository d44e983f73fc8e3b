/* Runtimes in the program that heddle cannot serve. A sanitizer's puts itself before the same
 * calls. Go's makes its own system calls, and knows each of its threads by what the kernel keeps of
 * a kernel thread: its tid, its signal stack, its futex waits. Valgrind stands in for the kernel,
 * and knows little of threads that are not glibc's. Mozilla's sandbox lets each process make the
 * calls that it knows of, and no others, once it has threads. Wine's server, and the guest of
 * qemu's user emulation by calls of qemu's own, send signals to the tids that gettid says. */
#include "runtimes.h"

#include <link.h>
#include <stddef.h>
#include <string.h>

/* Weak: the loader fills in those that are there; a lookup that fails would call a malloc that may
 * not be ready. */
#define RUNTIME(name) extern void name(void) __attribute__((weak, visibility("default")))
RUNTIME(__tsan_init);
RUNTIME(__asan_init);
RUNTIME(__msan_init);
RUNTIME(__lsan_init);
RUNTIME(safe_syscall_base);
RUNTIME(wine_main_preload_info);

static const char *by_symbol(void)
{
	const struct {
		void (*there)(void);
		const char *why;
	} runtimes[] = {
		{ __tsan_init, "ThreadSanitizer's runtime is present" },
		{ __asan_init, "AddressSanitizer's runtime is present" },
		{ __msan_init, "MemorySanitizer's runtime is present" },
		{ __lsan_init, "LeakSanitizer's runtime is present" },
		{ safe_syscall_base, "qemu's user emulation is present" },
		{ wine_main_preload_info, "wine's loader is present" },
	};

	for (size_t i = 0; i < sizeof(runtimes) / sizeof(*runtimes); i++)
		if (runtimes[i].there)
			return runtimes[i].why;
	return NULL;
}

/* Its linker notes a build in each object that holds the runtime. */
static bool noted(uintptr_t at, uintptr_t end)
{
	static const char name[] = "Go\0";
	enum { BUILD_ID = 4, ALIGN = 3 };

	while (at + sizeof(ElfW(Nhdr)) + sizeof(name) <= end) {
		const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
		if (note->n_type == BUILD_ID && note->n_namesz == sizeof(name) &&
		    memcmp(note + 1, name, sizeof(name)) == 0)
			return true;
		at += sizeof(*note) + ((note->n_namesz + ALIGN) & ~(uintptr_t)ALIGN) +
		      ((note->n_descsz + ALIGN) & ~(uintptr_t)ALIGN);
	}
	return false;
}

static int holds_go(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	(void)arg;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		uintptr_t at = info->dlpi_addr + ph->p_vaddr;
		/* Others are aligned in another way. */
		if (ph->p_type == PT_NOTE && ph->p_align <= 4 && noted(at, at + ph->p_memsz))
			return 1;
	}
	return 0;
}

static int is_named(struct dl_phdr_info *info, size_t size, void *part)
{
	(void)size;
	return info->dlpi_name && strstr(info->dlpi_name, part) != NULL;
}

/* Is an object of such a name there already? */
static bool holds(char *part)
{
	return dl_iterate_phdr(is_named, part) != 0;
}

const char *runtime_refused(void)
{
	const char *why = by_symbol();

	if (!why && dl_iterate_phdr(holds_go, NULL) != 0)
		why = "Go's runtime is present";
	/* What it injects into each program. */
	if (!why && holds("/vgpreload_"))
		why = "valgrind is present";
	/* Injected into each process that is to be confined; the one that confines them loads it
	 * later, with the rest of the browser. */
	if (!why && holds("/libmozsandbox.so"))
		why = "Mozilla's sandbox is present";
	return why;
}
