/* The table of commands.h. */
#include "commands.h"

#include <stddef.h>

const struct command *const commands[] = {
	&command_run,  &command_ps,	 &command_top,	 &command_stats,
	&command_dump, &command_ctl,	 &command_trace, &command_doctor,
	&command_ab,   &command_explore, NULL,
};
