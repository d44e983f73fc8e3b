/* Descriptors for files.h. The program may close any, and open another there: each is asked whether
 * it still is what it was. */
#include "files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config.h"
#include "early.h"
#include "mode.h"
#include "syscall.h"

enum { HIGH = 900, OWNER_ONLY = 0600 };

static const int how[FILES] = {
	[FILE_STATS] = O_WRONLY | O_APPEND | O_CREAT,
	[FILE_TRACE] = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW,
	[FILE_RECORD] = O_RDWR | O_CREAT | O_EXCL,
	[FILE_REPLAY] = O_RDONLY,
};

static struct kept {
	int fd;
	struct stat is;
} kept[FILES];

/* Whose they are: the child of a vfork would otherwise take them for its own. 0: nobody's yet. */
EARLY long files_keeper;

static const char *name_of(enum file which)
{
	switch (which) {
	case FILE_STATS:
		return config.statsfile;
	case FILE_TRACE:
		return config.trace;
	case FILE_RECORD:
		return config.record;
	default:
		return config.replay;
	}
}

/* Of one who kept it and became another program before it had a thread: nothing was written. */
static int take_over(enum file which)
{
	int fd = (int)arch_syscall4(SYS_openat, AT_FDCWD, (long)name_of(which),
				    (how[which] & ~(O_CREAT | O_EXCL)) | O_NOFOLLOW | O_CLOEXEC, 0);
	struct stat st;

	if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0 &&
	    st.st_uid == geteuid())
		return fd;
	if (fd >= 0)
		arch_syscall3(SYS_close, fd, 0, 0);
	return -EEXIST;
}

static int make(enum file which)
{
	int fd = (int)arch_syscall4(SYS_openat, AT_FDCWD, (long)name_of(which),
				    how[which] | O_CLOEXEC, OWNER_ONLY);

	return fd == -EEXIST && which == FILE_RECORD ? take_over(which) : fd;
}

int file_high(int fd)
{
	int high = (int)arch_syscall3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH);

	if (high < 0)
		return fd;
	arch_syscall3(SYS_close, fd, 0, 0);
	return high;
}

void files_keep(void)
{
	/* Once: who restricts himself further can open nothing any more. */
	if (files_keeper)
		return;
	files_keeper = arch_syscall3(SYS_getpid, 0, 0, 0);
	for (int i = 0; i < FILES; i++) {
		struct kept *k = &kept[i];
		k->fd = name_of((enum file)i) ? make((enum file)i) : -1;
		if (k->fd < 0)
			continue;
		k->fd = file_high(k->fd);
		/* Rather none than one at a number that the program's next would have. */
		if (k->fd < HIGH) {
			arch_syscall3(SYS_close, k->fd, 0, 0);
			k->fd = -1;
			continue;
		}
		fstat(k->fd, &k->is);
	}
}

int file_kept(enum file which)
{
	struct kept *k = &kept[which];
	struct stat st;
	int fd = k->fd;

	if (files_keeper != arch_syscall3(SYS_getpid, 0, 0, 0))
		return -1;
	k->fd = -1;
	return fd >= 0 && fstat(fd, &st) == 0 && st.st_dev == k->is.st_dev &&
			       st.st_ino == k->is.st_ino
		       ? fd
		       : -1;
}

int file_open(enum file which)
{
	int fd = file_kept(which);

	return fd >= 0 ? fd : make(which);
}
