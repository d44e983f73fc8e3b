/* What may be ordered of the scheduler while it runs, by view.h: the settings of `heddle ctl`. For
 * sysmon alone. Believes nothing: who orders is another process. */
#ifndef HEDDLE_ORDERS_H
#define HEDDLE_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "view.h"

/* order_begin: one at a time. Returns 0: done; an error number; or ORDER_BEGUN: order_over tells
 * when, and then *error. */
enum { ORDER_BEGUN = -1 };
int32_t order_begin(enum view_ordered what, uint32_t arg);
bool order_over(int32_t *error);

void orders_forked(void);

#endif
