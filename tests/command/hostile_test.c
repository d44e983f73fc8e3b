/* Who looks into a process believes nothing: pages of chance, pages with some bytes changed, lists
 * that bite their tails, files that are cut. Built with AddressSanitizer. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../test.h"
#include "elf.h"
#include "image.h"
#include "modules.h"
#include "target.h"
#include "view.h"

static uint8_t whole[IMAGE_BYTES], image[IMAGE_BYTES];

static uint32_t chance(uint64_t *state, uint32_t n)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(*state >> 33) % n;
}

TEST(a_whole_image_is_read)
{
	image_make(whole);
	EXPECT_EQ(image_look(whole, sizeof(whole)), IMAGE_GS);
}

TEST_IN(120, changed_bytes_harm_nobody)
{
	uint64_t state = test_seed();
	int read = 0, refused = 0;

	image_make(whole);
	/* What the reader would print. */
	EXPECT(freopen("/dev/null", "w", stdout) != NULL);
	for (int i = 0; i < 4000; i++) {
		memcpy(image, whole, sizeof(image));
		for (uint32_t n = 1 + chance(&state, 32); n > 0; n--) {
			/* The page and the structs more often than the rest. */
			uint32_t where = chance(&state, 3) == 0 ? IMAGE_PAGE + chance(&state, 96)
								: 0x2000 + chance(&state, 0x6000);
			static const uint8_t likely[] = { 0, 1, 0x7f, 0x80, 0xff, 0x51, 0x20 };
			image[where] = chance(&state, 2) ? likely[chance(&state, sizeof(likely))]
							 : (uint8_t)chance(&state, 256);
		}
		if (image_look(image, sizeof(image)) < 0)
			refused++;
		else
			read++;
	}
	EXPECT(read > 0 && refused > 0);
}

TEST_IN(120, pages_of_chance_are_refused)
{
	uint64_t state = test_seed();

	for (int i = 0; i < 2000; i++) {
		uint64_t magic = VIEW_MAGIC;
		for (size_t at = 0; at < sizeof(image); at++)
			image[at] = (uint8_t)chance(&state, 256);
		if (i % 2)
			memcpy(image + IMAGE_PAGE, &magic, sizeof(magic));
		EXPECT_EQ(image_look(image, sizeof(image) - chance(&state, 0x6fff)), -1);
	}
}

TEST(a_list_that_bites_its_tail_ends)
{
	uint64_t first = 0x5100, alllink = 14 * 8, step = 0x80;

	image_make(whole);
	for (uint64_t i = 0; i < IMAGE_GS; i++) {
		uint64_t to = first + i * step;
		memcpy(image, whole, sizeof(image));
		memcpy(image + first + (IMAGE_GS - 1) * step + alllink, &to, sizeof(to));
		EXPECT(image_look(image, sizeof(image)) >= IMAGE_GS);
	}
}

/* What heddle run and heddle doctor ask of a file. */
static void as_a_program(const char *path)
{
	static struct target target;
	static struct elf elf;

	if (elf_open(&elf, path)) {
		elf_note(&elf, "Go");
		elf_exports(&elf, "__asan_init");
		EXPECT(elf_calls(&elf) < 1 << 20);
		elf_tls(&elf);
		for (int i = 0; i < elf.nneeded; i++)
			EXPECT(strlen(elf.needed[i]) < ELF_NAME);
	}
	elf_close(&elf);
	target_check(path, &target);
}

TEST_IN(120, files_of_any_content_give_names_or_none)
{
	char path[] = "/tmp/heddle-hostile-XXXXXX";
	uint64_t state = test_seed();
	int fd = mkstemp(path), self;
	static uint8_t file[1 << 20];
	struct modules ms = { .pid = getpid() };
	ssize_t n;

	EXPECT(fd >= 0 && fchmod(fd, 0700) == 0);
	self = open("/proc/self/exe", 0);
	n = read(self, file, sizeof(file));
	EXPECT(n > 4096);
	for (int i = 0; i < 200; i++) {
		struct module m = { .path = path, .name = path };
		uint64_t in;
		/* Headers more often than the rest. */
		uint32_t where = chance(&state, i % 2 ? 900 : (uint32_t)n);
		uint8_t was = file[where];
		if (i > 0)
			file[where] = (uint8_t)chance(&state, 256);
		EXPECT_EQ(ftruncate(fd, 0), 0);
		EXPECT(pwrite(fd, file, (size_t)n - (i % 3 ? chance(&state, (uint32_t)n) : 0), 0) >=
		       0);
		for (uint64_t pc = 0; pc < 0x100000; pc += 0x3333) {
			const char *name = module_symbol(&ms, &m, pc, &in);
			EXPECT(!name || strlen(name) > 0);
		}
		symbols_free(&m);
		as_a_program(path);
		file[where] = was;
	}
	unlink(path);
}
