/* What a program asks for a new thread. */
#ifndef HEDDLE_ATTR_H
#define HEDDLE_ATTR_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct request {
	void *stack; /* the program's own, else NULL */
	size_t size, guard;
	bool detached, explicit;
	uint64_t mask;
	int policy, priority;
	const cpu_set_t *cpus; /* NULL: any */
};

/* attr_read: attr, NULL for the default, into *req; cpus: room for what req->cpus points to. */
void attr_read(const pthread_attr_t *attr, struct request *req, cpu_set_t *cpus);

/* attr_defaulted: has the program set a default? */
bool attr_defaulted(void);

#endif
