/* Processes. fork and its kin tell us by pthread_atfork (shim/start.c); what does not is here. */
#include "thread.h"

EXPORT pid_t _Fork(void)
{
	pid_t pid;

	served();
	pid = real_table._Fork();
	if (pid == 0)
		heddle_forked();
	return pid;
}
