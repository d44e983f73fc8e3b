/* What the events of trace.h tell, as slices of time: on which P which G ran, and of each G when it
 * ran, was runnable, waited and for what. In the order of their times; what was lost, or comes too
 * late, is noticed by each G's own numbers: then the slice that it would have ended is left out.
 *
 * P's tracks are those of process 1 of the trace, Gs' those of process 2: names that Perfetto
 * shows. An arrow goes from who readied a G to where it ran. Owns what is known of each G, in
 * memory that grows with the number of those that live. */
#ifndef HEDDLE_TRACKS_H
#define HEDDLE_TRACKS_H

#include <stdbool.h>
#include <stdint.h>

#include "trace.h"
#include "tracefile.h"

/* tracks_begin: forgets all; slices begin at `zero`. tracks_seed: a G that was there then.
 * tracks_names: puts those that are not in the file yet; false: there are more, of whom it knows
 * once these are written. tracks_event: puts what it ends. tracks_open: all that goes on at `now`,
 * as far as there are bytes. tracks_lost: events are missing, up to now. tracks_unsure: how many
 * slices were left out. */
void tracks_begin(uint64_t zero);
void tracks_seed(struct g *gp, const char name[TRACE_NAME_LEN]);
bool tracks_names(struct tracefile *f);
void tracks_event(struct tracefile *f, uint32_t mid, const struct traceevent *ev);
void tracks_lost(uint64_t now);
void tracks_open(struct tracefile *f, uint64_t now, size_t bytes);
uint64_t tracks_unsure(void);

#endif
