/* A line on standard error that says how far it is; on a terminal only. */
#ifndef HEDDLE_AB_PROGRESS_H
#define HEDDLE_AB_PROGRESS_H

/* progress_begin: so many runs. progress_step: another is done, which took so many seconds.
 * progress_draw: as it is. progress_end: the line goes. */
void progress_begin(int runs);
void progress_step(double seconds);
void progress_draw(void);
void progress_end(void);

#endif
