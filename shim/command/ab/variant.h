/* A variant: one way to run the command, written
 *
 *     native                   as it is
 *     POLICY[,SWITCH=VALUE...] under heddle with that policy; go is the one it has by itself
 *
 * and after either a comma and settings: of both cpus=LIST and quota=CPUS, of the latter p=N,
 * max-threads=N and seed=N, which are taken out of what the policy is told. */
#ifndef HEDDLE_AB_VARIANT_H
#define HEDDLE_AB_VARIANT_H

#include <sched.h>
#include <stdbool.h>

#include "options.h"

enum { VARIANT_TEXT = 128, VARIANT_SETTINGS = 4 };

struct variant {
	char text[VARIANT_TEXT]; /* as it was written */
	bool native;
	char policy[VARIANT_TEXT]; /* HEDDLE_POLICY; "": none is set */
	struct {
		const char *name; /* of an environment variable; NULL: no more */
		char value[24];
	} settings[VARIANT_SETTINGS];
	bool pinned; /* to cpus */
	cpu_set_t cpus;
	double quota; /* of cpus, by a cgroup; 0: none */
	int cgroup; /* a descriptor of its cgroup.procs or tasks; -1: none */
};

/* variant_read: false: it was said on stderr what is wrong with the text. */
bool variant_read(const char *text, struct variant *v);

/* In the child that becomes the command. variant_environment: sets and unsets; preload: of
 * LD_PRELOAD under heddle. variant_confine: to its cpus and cgroup; false: errno says why not. */
void variant_environment(const struct variant *v, const char *preload, const char *counters);
bool variant_confine(const struct variant *v);

/* cgroup_make: one with the quota, for v->cgroup; false: it was said why not. cgroup_remove: all
 * that were made. In cgroup.c. */
bool cgroup_make(struct variant *v);
void cgroup_remove(void);

#endif
