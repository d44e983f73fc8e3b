/* The subcommands, one file each. */
#ifndef HEDDLE_COMMAND_COMMANDS_H
#define HEDDLE_COMMAND_COMMANDS_H

#include "options.h"

extern const struct command command_run;
extern const struct command command_ps;
extern const struct command command_stats;
extern const struct command command_dump;
extern const struct command command_doctor;

#endif
