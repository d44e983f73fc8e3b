/* Tells the tables of the command (options.h) and of the environment (variables.def) to what is
 * made from them. Usage: rows complete   for the shells: KIND:SUBCOMMAND:LETTER:NAME:VALUE:TEXT
 *                        rows commands   for the man page, a section for each subcommand
 *                        rows variables  for the man page, a list
 *                        rows readme     the README's table of the variables */
#include <stdio.h>
#include <string.h>

#include "../command/commands.h"

static const struct variable {
	const char *name, *form, *means;
} variables[] = {
#define VARIABLE(name, kind, most, set, form, means) { name, form, means },
#include "../variables.def"
#undef VARIABLE
};

enum { VARIABLES = sizeof(variables) / sizeof(*variables) };

static void complete_rows(const char *kind, const char *of, const struct option_row *rows)
{
	for (; rows && rows->name; rows++)
		printf("%s:%s:%.*s:%s:%s:%s\n", kind, of, rows->letter != 0, &rows->letter,
		       rows->name, rows->value ? rows->value : "", rows->what);
}

static void complete(void)
{
	for (int i = 0; commands[i]; i++) {
		const struct command *c = commands[i];
		printf("command:::%s::%s\n", c->name, c->what);
		printf("operands:%s:::%s:\n", c->name, c->operands);
		complete_rows("option", c->name, c->options);
		complete_rows("option", c->name, common_options);
		complete_rows("setting", c->name, c->settings);
	}
}

/* As text of mdoc(7): a line that begins with a dot or a quote would be an order. */
static void text(const char *s)
{
	for (bool first = true; *s; s++) {
		if (first && (*s == '.' || *s == '\''))
			fputs("\\&", stdout);
		if (*s == '\\')
			fputs("\\e", stdout);
		else if (*s == '-' && s[1] == '-')
			fputs("\\-", stdout);
		else
			putchar(*s);
		first = *s == '\n';
		/* What an empty line parts. */
		if (first && s[1] == '\n') {
			fputs(".Pp\n", stdout);
			s++;
		}
		/* A sentence, a line. */
		if (*s == '.' && s[1] == ' ') {
			putchar('\n');
			s++;
		}
	}
}

/* report|abort are words to be written so, others stand for something. */
static void value(const char *form)
{
	printf("%s %s", strchr(form, '|') || *form >= 'a' || *form == '1' ? "Cm" : "Ar", form);
}

static void manual_rows(const struct option_row *rows)
{
	for (; rows && rows->name; rows++) {
		fputs(".It ", stdout);
		if (rows->letter)
			printf("Fl %c , ", rows->letter);
		printf("Fl Fl %s", rows->name);
		if (rows->value) {
			putchar(' ');
			value(rows->value);
		}
		putchar('\n');
		text(rows->what);
		putchar('\n');
	}
}

static void manual_settings(const struct option_row *rows)
{
	for (; rows && rows->name; rows++) {
		printf(".It Cm %s Ns = Ns ", rows->name);
		value(rows->value);
		putchar('\n');
		text(rows->what);
		putchar('\n');
	}
}

static void manual(const struct command *c)
{
	printf(".Ss heddle %s%s%s%s\n", c->name, c->options ? " [options]" : "",
	       *c->operands ? " " : "", c->operands);
	text(c->what);
	putchar('\n');
	if (c->options || c->settings) {
		puts(".Bl -tag -width Ds");
		manual_rows(c->options);
		manual_settings(c->settings);
		puts(".El");
	}
	if (c->more) {
		puts(".Pp");
		text(c->more);
	}
}

static void manual_variables(void)
{
	puts(".Bl -tag -width Ds");
	for (int i = 0; i < VARIABLES; i++) {
		printf(".It Ev %s Ns = Ns ", variables[i].name);
		value(variables[i].form);
		putchar('\n');
		text(variables[i].means);
		putchar('\n');
	}
	puts(".El");
}

static void readme(void)
{
	puts("| variable | means |\n|---|---|");
	for (int i = 0; i < VARIABLES; i++) {
		printf("| `%s=", variables[i].name);
		for (const char *f = variables[i].form; *f; f++)
			printf("%s%c", *f == '|' ? "\\" : "", *f);
		printf("` | %s |\n", variables[i].means);
	}
}

int main(int argc, char **argv)
{
	const char *what = argc == 2 ? argv[1] : "";

	if (strcmp(what, "complete") == 0)
		complete();
	else if (strcmp(what, "variables") == 0)
		manual_variables();
	else if (strcmp(what, "readme") == 0)
		readme();
	else if (strcmp(what, "commands") == 0)
		for (int i = 0; commands[i]; i++)
			manual(commands[i]);
	else
		return USAGE;
	return fflush(stdout) == 0 ? DONE : FAILED;
}
