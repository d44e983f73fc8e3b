/* The drawings of the page, as SVG in the page's own colours. Each has its text beside it. */
#ifndef HEDDLE_AB_DRAWING_H
#define HEDDLE_AB_DRAWING_H

#include "words.h"

/* draw_text: as text of HTML. draw_name: an arm's, the control's too. */
void draw_text(FILE *to, const char *text);
void draw_name(const struct experiment *e, int arm, FILE *to);

/* draw_values: each run of each arm, with quartiles and median. draw_ratios: of each b, and of the
 * control, the interval. draw_rounds: the runs in the order in which they were made. draw_waits:
 * how long Gs waited for a P; false: nobody counted any. */
void draw_values(const struct experiment *e, FILE *to);
void draw_ratios(const struct experiment *e, FILE *to);
void draw_rounds(const struct experiment *e, FILE *to);
bool draw_waits(const struct experiment *e, FILE *to);

#endif
