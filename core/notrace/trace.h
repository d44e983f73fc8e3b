/* No tracing: the empty twin of tracing/trace.h. */
#ifndef HEDDLE_TRACE_H
#define HEDDLE_TRACE_H

#include "gmp.h"

#define trace_new(mp, gp) ((void)(mp), (void)(gp))
#define trace_ready(mp, gp) ((void)(mp), (void)(gp))
#define trace_run(mp, gp) ((void)(mp), (void)(gp))
#define trace_stop(mp, gp, why) ((void)(mp), (void)(gp), (void)(why))
#define trace_switch(mp, from, why, to) ((void)(mp), (void)(from), (void)(why), (void)(to))
#define trace_taken(gp, call) ((void)(gp), (void)(call))
#define trace_back(mp, pp, gp) ((void)(mp), (void)(pp), (void)(gp))
#define trace_steal(mp, gp, victim) ((void)(mp), (void)(gp), (void)(victim))

#endif
