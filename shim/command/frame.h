/* One picture of a scheduler at work, for heddle top. */
#ifndef HEDDLE_COMMAND_FRAME_H
#define HEDDLE_COMMAND_FRAME_H

#include <stdint.h>
#include <stdio.h>

#include "scene.h"

enum sorting { BY_CPU, BY_AGE, BY_STATE, BY_ID, SORTINGS };

/* How often a G was seen to run, of so many looks. */
struct share {
	uint64_t g;
	int seen;
};

struct picture {
	const struct view *v;
	const struct scene *before, *now; /* the rates are between the two */
	const char *command;
	struct share *shares; /* by address */
	int nshares, looks;
	enum sorting sorting;
	int columns, rows;
	bool keys; /* say which there are */
};

/* frame_draw: at most p->rows lines, none longer than p->columns. */
void frame_draw(FILE *to, const struct picture *p);

#endif
