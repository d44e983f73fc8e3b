/* Threads that are tied to one kernel thread for what the kernel knows of it. */
#ifndef HEDDLE_WIRE_H
#define HEDDLE_WIRE_H

struct thread;

/* thread_wire: the calling thread stays on its kernel thread from here on, whose tid and
 * robust list are its own. thread_unwire: before it ends. */
void thread_wire(struct thread *t);
void thread_unwire(struct thread *t);

#endif
