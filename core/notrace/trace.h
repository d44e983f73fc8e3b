/* No tracing: the empty twin of tracing/trace.h. */
#ifndef HEDDLE_TRACE_H
#define HEDDLE_TRACE_H

#include "gmp.h"

#define trace_init() ((void)0)
#define trace_new(gp) ((void)(gp))
#define trace_run(mp, gp) ((void)(mp), (void)(gp))
#define trace_stop(mp, gp, why) ((void)(mp), (void)(gp), (void)(why))
#define trace_ready(mp, gp) ((void)(mp), (void)(gp))
#define trace_steal(mp, gp, victim) ((void)(mp), (void)(gp), (void)(victim))
#define trace_mstop(mp) ((void)(mp))

#endif
