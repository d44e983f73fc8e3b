/* What a run did, and whether that is what it usually does. */
#include <stdlib.h>
#include <string.h>

#include "hunt.h"
#include "say.h"

/* Of a few native runs all must agree, in what they print, or it is nothing to go by; of many some
 * may be those that fail. */
enum { MANY = 20, AGREE_PERCENT = 95 };

/* The library's, when it was asked for it (HEDDLE_DEADLOCK). */
static const char locked[] = "heddle: all threads are asleep - deadlock!";

bool judge_locked(const struct trial *t)
{
	size_t n;
	char *text = trial_text(t->err, &n);
	bool is = strstr(text, locked) != NULL;

	free(text);
	return is;
}

/* All that the pattern matches, a line each; to be freed. */
static char *matches(const struct hunt *h, const char *text, size_t *n)
{
	char *to = malloc(2 * strlen(text) + 2), *at = to;
	regmatch_t m;

	if (!to)
		abort();
	for (int flags = 0; regexec(&h->regex, text, 1, &m, flags) == 0; flags = REG_NOTBOL) {
		size_t len = (size_t)(m.rm_eo - m.rm_so);
		memcpy(at, text + m.rm_so, len);
		at += len;
		*at++ = '\n';
		text += m.rm_eo;
		/* An empty match is none. */
		if (len == 0 && (at--, *text++ == 0))
			break;
	}
	*at = 0;
	*n = (size_t)(at - to);
	return to;
}

/* What of a run's output counts; to be freed. */
static char *counted(const struct hunt *h, int fd, size_t *n)
{
	char *text = trial_text(fd, n), *part;

	if (!h->pattern)
		return text;
	part = matches(h, text, n);
	free(text);
	return part;
}

void judge_read(const struct hunt *h, const struct trial *t, struct outcome *o)
{
	size_t n;
	char *text = counted(h, t->out, &n);

	*o = (struct outcome){ .status = t->status, .wall = t->wall };
	o->deed = t->how == ENDED_SIGNAL ? DID_DIE : t->how == ENDED_EXIT ? DID_END : DID_HANG;
	if (o->deed == DID_HANG) {
		o->deed = judge_locked(t) ? DID_LOCK : DID_HANG;
		o->status = 0;
	}
	o->answer = answer_of(text, n);
	free(text);
}

static bool same_end(const struct outcome *a, const struct outcome *b)
{
	return a->deed == b->deed && a->status == b->status;
}

static bool same_answer(const struct outcome *a, const struct outcome *b, int level)
{
	return a->answer.hash[level] == b->answer.hash[level];
}

bool judge_odd(const struct hunt *h, const struct outcome *o)
{
	if (!same_end(o, &h->usual))
		return true;
	return h->level < LIKENESSES && !same_answer(o, &h->usual, h->level);
}

bool judge_alike(const struct hunt *h, const struct outcome *a, const struct outcome *b)
{
	if (!same_end(a, b))
		return false;
	return a->deed != DID_END || h->level == LIKENESSES || same_answer(a, b, h->level);
}

/* How many of n are as the i-th; level < 0: their output aside. */
static int like(const struct outcome *of, int n, int i, int level)
{
	int alike = 0;

	for (int k = 0; k < n; k++)
		alike += same_end(&of[i], &of[k]) &&
			 (level < 0 || same_answer(&of[i], &of[k], level));
	return alike;
}

/* The first of those of whom there are most. */
static int most_like(const struct outcome *of, int n, int level, int *many)
{
	int best = 0;

	*many = 0;
	for (int i = 0; i < n; i++) {
		int alike = like(of, n, i, level);
		if (alike <= *many)
			continue;
		*many = alike;
		best = i;
	}
	return best;
}

int judge_usual(struct hunt *h, const struct outcome *of, int n)
{
	int many, ends, best = most_like(of, n, -1, &ends);

	h->level = LIKENESSES;
	for (int level = 0; !h->silent && level < LIKENESSES; level++) {
		int at = most_like(of, n, level, &many);
		if (n < MANY ? many < n : many * 100 < n * AGREE_PERCENT)
			continue;
		h->level = level;
		best = at;
		break;
	}
	h->usual = of[best];
	return best;
}

void judge_difference(const struct hunt *h, int fd, char *to, size_t size)
{
	size_t na, nb;
	char *a = counted(h, h->usual_out, &na), *b = counted(h, fd, &nb);

	answer_difference(a, na, b, nb, (enum likeness)h->level, to, size);
	free(a);
	free(b);
}
