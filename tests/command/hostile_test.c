/* Who looks into a process believes nothing: pages of chance, pages with some bytes changed, lists
 * that bite their tails, files that are cut. Built with AddressSanitizer. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../test.h"
#include "digest.h"
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

/* ---- traces ---- */

static char trace[] =
	"[\n"
	"{\"ph\":\"M\",\"pid\":2,\"tid\":1,\"name\":\"thread_name\",\"args\":{\"name\":\"G 1 main\"}},\n"
	"{\"ph\":\"M\",\"pid\":2,\"tid\":7,\"name\":\"thread_name\",\"args\":{\"name\":\"G 7 pay\"}},\n"
	"{\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":10.500,\"dur\":2000.250,\"name\":\"G 7 pay\","
	"\"args\":{\"g\":7,\"m\":0,\"end\":\"exit\"}},\n"
	"{\"ph\":\"X\",\"pid\":2,\"tid\":7,\"ts\":10.500,\"dur\":2000.250,\"name\":\"running\","
	"\"args\":{\"p\":0}},\n"
	"{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":1.000,\"dur\":5000.000,\"name\":\"futex\","
	"\"cat\":\"wait\",\"args\":{\"w\":1,\"on\":\"0x7f01\"}},\n"
	"{\"ph\":\"X\",\"pid\":2,\"tid\":1,\"ts\":1.000,\"dur\":1.500,\"name\":\"runnable\","
	"\"args\":{\"by\":7}},\n"
	"{\"ph\":\"M\",\"pid\":1,\"name\":\"heddle\",\"args\":{\"pid\":42,\"procs\":2,\"ns\":5001000,"
	"\"lost\":0,\"whole\":1,\"switches\":1,\"created\":2,\"finished\":1,\"parks\":3}}\n"
	"]\n";

enum { TRACE_BYTES = sizeof(trace) - 1 };

/* What is said of n bytes of a trace; NULL: nothing. */
static const char *digest_of(const char *from, size_t n)
{
	static char said[1 << 16];
	FILE *in = fmemopen((void *)(uintptr_t)from, n, "r"),
	     *to = fmemopen(said, sizeof(said), "w");
	bool ours;

	EXPECT(in && to);
	ours = digest_print(in, to, 10);
	fclose(in);
	fclose(to);
	return ours ? said : NULL;
}

TEST(a_trace_is_summed)
{
	const char *said = digest_of(trace, TRACE_BYTES);

	EXPECT(said != NULL);
	EXPECT(strstr(said, "Process 42 on 2 Ps, 5.001 ms.\n") != NULL);
	EXPECT(strstr(said, "switches              1\n") != NULL);
	/* It does not agree, and that is said. */
	EXPECT(strstr(said, "waits                 1  the scheduler counted 3\n") != NULL);
	EXPECT(strstr(said, "G 7 pay                         2.000") != NULL);
	EXPECT(strstr(said, "0.002  G 1 at 0.001, readied by G 7") != NULL);
	EXPECT(strstr(said, "0x7f01                    5.000          1        5.000") != NULL);
}

TEST(a_trace_that_is_cut_is_read_as_far_as_it_goes)
{
	char part[TRACE_BYTES];

	for (size_t n = 1; n < TRACE_BYTES; n++) {
		const char *said;
		memcpy(part, trace, n);
		said = digest_of(part, n);
		/* From the first name on there is something. */
		EXPECT((said != NULL) == (strstr(trace, "G 1 main\"}}") + 11 <= trace + n));
		if (n + 3 < TRACE_BYTES && said)
			EXPECT(strstr(said, "its totals are missing") != NULL);
	}
}

TEST_IN(120, changed_traces_harm_nobody)
{
	static const char likely[] = "{}[]\",:\\\n0.9-e\0\033xtn";
	uint64_t state = test_seed();
	char changed[TRACE_BYTES];
	int read = 0;

	for (int i = 0; i < 20000; i++) {
		memcpy(changed, trace, TRACE_BYTES);
		for (uint32_t n = 1 + chance(&state, 16); n > 0; n--)
			changed[chance(&state, TRACE_BYTES)] =
				chance(&state, 2) ? likely[chance(&state, sizeof(likely))]
						  : (char)chance(&state, 256);
		read += digest_of(changed, TRACE_BYTES - chance(&state, TRACE_BYTES)) != NULL;
	}
	EXPECT(read > 1000);
}

TEST(numbers_and_lines_without_end_are_bounded)
{
	enum { LONG = 100000 };
	static char line[LONG + 200];
	size_t n = (size_t)sprintf(line, "{\"ph\":\"X\",\"pid\":2,\"tid\":5,\"name\":\"runnable\","
					 "\"ts\":1.0,\"dur\":");

	memset(line + n, '9', LONG);
	strcpy(line + n + 30, "}\n");
	EXPECT(digest_of(line, strlen(line)) == NULL);
	strcpy(line + n + 30, "},\n{\"ph\":\"M\",\"pid\":2,\"tid\":5,\"name\":\"thread_name\","
			      "\"args\":{\"name\":\"\033[2Jx\"}}\n");
	const char *said = digest_of(line, strlen(line));
	EXPECT(said && strstr(said, "9223372036854.775") != NULL);
	EXPECT(strchr(said, '\033') == NULL);
	memset(line, '{', LONG);
	EXPECT(digest_of(line, LONG) == NULL);
}
