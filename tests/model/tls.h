/* The twin of core/arch/<cpu>/tls.h: whose context runs is the model's to say. */
#ifndef HEDDLE_ARCH_TLS_H
#define HEDDLE_ARCH_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct g;

/* getg: the running model thread's G, the g0 of its M, or NULL for a foreign thread. */
struct g *getg(void);

static const bool arch_fsgsbase = true;

#endif
