/* What a G waits for, in words. */
#ifndef HEDDLE_COMMAND_WAITS_H
#define HEDDLE_COMMAND_WAITS_H

#include "scene.h"

enum { WAIT_TEXT = 160 };

/* wait_text: "" for one that does not wait. With brief only what many of them may have in
 * common. */
void wait_text(const struct view *v, const struct scene *s, const struct g_seen *g, bool brief,
	       char *to);

/* wait_owner: who holds the mutex that g waits for; NULL if it is no mutex, or not known. */
const struct g_seen *wait_owner(const struct view *v, const struct scene *s,
				const struct g_seen *g);

/* waits_circles: prints each circle of Gs that wait for each other's mutexes. Returns how many. */
int waits_circles(const struct view *v, const struct scene *s);

#endif
