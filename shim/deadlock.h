/* The report of a deadlock that HEDDLE_DEADLOCK asks for. */
#ifndef HEDDLE_DEADLOCK_H
#define HEDDLE_DEADLOCK_H

/* deadlock_look: core_config.asleep. deadlock_forked: in the child of a fork. */
void deadlock_look(void);
void deadlock_forked(void);

#endif
