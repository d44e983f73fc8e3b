/* Telling what was searched and found. */
#include <string.h>

#include "hunt.h"
#include "say.h"

enum { COMMAND = 4096 };

static const char *const levels[] = {
	[ALIKE_EXACTLY] = "",
	[ALIKE_BUT_NUMBERS] = ", numbers aside",
	[ALIKE_BUT_ORDER] = ", numbers and the order of lines aside",
	[LIKENESSES] = "",
};

void words_of(const struct hunt *h, const struct outcome *o, char *to, size_t size)
{
	switch (o->deed) {
	case DID_DIE:
		snprintf(to, size, "dies of signal %d (%s)", o->status, strsignal(o->status));
		break;
	case DID_HANG:
		snprintf(to, size, "hangs: it was ended after %.3g s", h->timeout);
		break;
	case DID_LOCK:
		snprintf(to, size, "deadlock: all its threads wait for each other");
		break;
	default:
		if (o->status != h->usual.status || h->usual.deed != DID_END)
			snprintf(to, size, "ends with status %d", o->status);
		else
			snprintf(to, size, "prints otherwise%s", levels[h->level]);
	}
}

static void seconds(double s, char *to)
{
	if (s < 1)
		snprintf(to, SAY_TIME, "%.0f ms", s * 1000);
	else
		say_time(to, (uint64_t)(s * 1e9));
}

void tell_begin(const struct hunt *h)
{
	char words[HUNT_TEXT], slow[SAY_TIME], count[SAY_COUNT];

	fprintf(h->to, "%sheddle explore%s  %s\n", bold(), plain(), h->line);
	words_of(h, &h->usual, words, sizeof(words));
	if (h->usual.deed == DID_END)
		snprintf(words, sizeof(words), "status %d", h->usual.status);
	seconds(h->slowest, slow);
	fprintf(h->to, "%s native runs: %s, %s at most\n",
		say_count(count, (uint64_t)h->native_done), words, slow);
	if (h->native_failed)
		fprintf(h->to, "%d of them did otherwise; the first: %s\n", h->native_failed,
			h->native_words);
	if (h->level == LIKENESSES && !h->silent)
		fputs("what they print differs from run to run: it is not compared\n", h->to);
	else if (h->level > ALIKE_EXACTLY && !h->silent)
		fprintf(h->to, "what they print is compared%s\n", levels[h->level]);
	fflush(h->to);
}

/* Of the command line that has the run again. */
static void replay_line(const struct hunt *h, char *to, size_t size)
{
	bool hung = h->odd.deed == DID_HANG || h->odd.deed == DID_LOCK;

	snprintf(to, size, "heddle run -p %d --policy %s --seed %llu%s -- %s%s%s", h->procs,
		 h->lot.policy, (unsigned long long)h->lot.seed, hung ? " --deadlock=report" : "",
		 h->line, strcmp(h->setup.input, "/dev/null") == 0 ? "" : " <",
		 strcmp(h->setup.input, "/dev/null") == 0 ? "" : h->setup.input);
}

static void found(const struct hunt *h)
{
	char words[HUNT_TEXT], line[COMMAND];

	words_of(h, &h->odd, words, sizeof(words));
	fprintf(h->to, "\n%srun %d of %d: %s%s\n", bold(), h->done, h->runs, words, plain());
	if (*h->difference)
		fprintf(h->to, "    %s\n", h->difference);
	if (*h->words && h->odd.deed != DID_LOCK)
		fprintf(h->to, "    its last words: %s\n", h->words);
	replay_line(h, line, sizeof(line));
	fprintf(h->to, "    %s\n", line);
	fprintf(h->to, "    %d of %d runs of that do the same%s\n", h->alike, h->replayed,
		h->alike == h->replayed ? ""
					: ": it depends on more than the order of its threads");
	if (h->dump && *h->dump)
		fprintf(h->to, "\n%s", h->dump);
}

void tell_end(const struct hunt *h)
{
	char took[SAY_TIME];

	if (h->found) {
		found(h);
		return;
	}
	seconds(h->took, took);
	fprintf(h->to, "nothing found in %d runs by seed %llu, %ld points each, in %s\n", h->done,
		(unsigned long long)h->seed, h->points, took);
	if (h->unsteady)
		fprintf(h->to,
			"%d of them took longer than %.3g s, and did not when they were run again\n",
			h->unsteady, h->timeout);
}

/* ---- JSON ---- */

static void json_outcome(const struct hunt *h, const struct outcome *o, FILE *to)
{
	static const char *const deeds[] = { [DID_END] = "end",
					     [DID_DIE] = "signal",
					     [DID_HANG] = "hang",
					     [DID_LOCK] = "deadlock" };
	char words[HUNT_TEXT];

	words_of(h, o, words, sizeof(words));
	fprintf(to, "\"did\": \"%s\", ", deeds[o->deed]);
	if (o->deed == DID_END || o->deed == DID_DIE)
		fprintf(to, "\"%s\": %d, ", o->deed == DID_END ? "status" : "signal", o->status);
	fprintf(to, "\"words\": ");
	say_json_to(to, words);
}

void tell_json(const struct hunt *h, FILE *to)
{
	char line[COMMAND];

	fprintf(to, "{\"command\": [");
	for (char **word = h->command; *word; word++) {
		say_json_to(to, *word);
		fputs(word[1] ? ", " : "", to);
	}
	fprintf(to, "],\n\"seed\": %llu, \"runs\": %d, \"asked\": %d, \"points\": %ld, ",
		(unsigned long long)h->seed, h->done, h->runs, h->points);
	fprintf(to, "\"seconds\": %.3f, \"timeout\": %.3f,\n", h->took, h->timeout);
	fprintf(to, "\"native\": {\"runs\": %d, \"failed\": %d, ", h->native_done,
		h->native_failed);
	json_outcome(h, &h->usual, to);
	fprintf(to, "},\n\"found\": ");
	if (!h->found) {
		fputs("null}\n", to);
		return;
	}
	fprintf(to, "{\"run\": %d, ", h->lot.number);
	json_outcome(h, &h->odd, to);
	fputs(", \"difference\": ", to);
	say_json_to(to, h->difference);
	fprintf(to, ",\n\"policy\": \"%s\", \"seed\": %llu, \"replay\": ", h->lot.policy,
		(unsigned long long)h->lot.seed);
	replay_line(h, line, sizeof(line));
	say_json_to(to, line);
	fprintf(to, ",\n\"replayed\": %d, \"alike\": %d, \"dump\": ", h->replayed, h->alike);
	say_json_to(to, h->dump ? h->dump : "");
	fputs("}}\n", to);
}
