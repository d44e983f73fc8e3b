/* Makes the mistakes of mutants.def. `mutate list` prints a line for each: name, file, program,
 * scenario. `mutate NAME <source >mutant` replaces its old text, which must be there once. */
#include <stdio.h>
#include <string.h>

static const struct mutant {
	const char *name, *file, *from, *to, *program, *scenario;
} mutants[] = {
#define MUTANT(name, file, from, to, program, scenario)                                            \
	{ #name, file, from, to, program, scenario },
#include "mutants.def"
#undef MUTANT
};

enum { MUTANTS = sizeof(mutants) / sizeof(mutants[0]), SOURCE = 1 << 20 };

static char source[SOURCE];

static int list(void)
{
	for (int i = 0; i < MUTANTS; i++)
		printf("%s %s %s %s\n", mutants[i].name, mutants[i].file, mutants[i].program,
		       mutants[i].scenario);
	return 0;
}

static int apply(const struct mutant *m)
{
	size_t n = fread(source, 1, SOURCE - 1, stdin);
	char *at;

	source[n] = 0;
	at = strstr(source, m->from);
	if (!at || strstr(at + 1, m->from)) {
		fprintf(stderr, "%s: its text is %s in %s\n", m->name, at ? "not alone" : "not",
			m->file);
		return 1;
	}
	*at = 0;
	printf("%s%s%s", source, m->to, at + strlen(m->from));
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "list") == 0)
		return list();
	for (int i = 0; argc == 2 && i < MUTANTS; i++)
		if (strcmp(argv[1], mutants[i].name) == 0)
			return apply(&mutants[i]);
	fprintf(stderr, "usage: mutate list | mutate NAME <source >mutant\n");
	return 2;
}
