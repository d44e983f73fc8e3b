/* One run of the command, under one variant: started, waited for, measured, ended if it hangs. Its
 * outputs go to memory, through descriptors that look like files. */
#ifndef HEDDLE_AB_TRIAL_H
#define HEDDLE_AB_TRIAL_H

#include <stdbool.h>
#include <sys/types.h>

#include "variant.h"

enum ended {
	ENDED_EXIT,
	ENDED_SIGNAL,
	ENDED_HUNG, /* was killed when its time was over */
	ENDED_CUT, /* we are to end, too */
	ENDED_STOPPED, /* we were stopped meanwhile: its times are nothing */
	ENDED_NEVER, /* it could not be started: it was said why */
};

struct trial {
	enum ended how;
	int status; /* of exit, or the signal */
	double wall, cpu, rss, ctxsw; /* in seconds and bytes, its waited-for children included */
	int out, err; /* descriptors of what it wrote; the caller closes them */
};

struct trial_setup {
	const char *who; /* as messages begin: "heddle ab" */
	char **command;
	const char *input; /* a file */
	const char *preload; /* LD_PRELOAD under heddle */
	bool nocore; /* who dies leaves no core file */
	void (*tick)(void); /* once a second, meanwhile */
	/* looks: some times a second: true: it hangs, and is not waited for any longer. hung:
	 * before one that hangs is ended. Each may be NULL. */
	bool (*looks)(const struct trial *t);
	void (*hung)(pid_t pid);
};

/* trial_signals: from here on SIGINT, SIGTERM and SIGHUP end the trial that runs, and are
 * remembered in trial_interrupted. */
extern volatile int trial_interrupted;
void trial_signals(void);

/* trial_run: seconds: how long it may take; 0: as it likes. counters: a file for them, or NULL. */
void trial_run(const struct trial_setup *setup, const struct variant *v, const char *counters,
	       double seconds, struct trial *t);

/* trial_text: all of what a descriptor holds, and a 0 behind it; to be freed. */
char *trial_text(int fd, size_t *n);

#endif
