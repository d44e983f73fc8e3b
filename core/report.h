/* What the scheduler says of itself on standard error: Go's schedtrace lines, scheddetail,
 * the line that all Gs are asleep, and that a limit gave way. Reads counters and lists without
 * locks wherever a torn picture does no harm. */
#ifndef HEDDLE_REPORT_H
#define HEDDLE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void report_init(uint32_t schedtrace_ms, bool detail, void (*alldead)(void));

/* report_ticks: true if sysmon must come by on time. report_tick: prints if it is time. */
bool report_ticks(void);
void report_tick(uint64_t now);

/* report_limit: the soft limit on kernel threads gave way: so many are allowed now. */
void report_limit(int32_t allowed);

/* schedtrace: Go's line into buf; with detail the Ms, Ps and Gs too. Returns its length. */
size_t schedtrace(char *buf, size_t len, bool detail);

const char *waitreason_name(unsigned reason);
const char *gstatus_name(uint32_t status);

#endif
