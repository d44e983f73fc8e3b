/* Which files' polls take what they tell; and sets, once one of the program's has such a file. */
#include <fcntl.h>
#include <sys/epoll.h>

#include "host.h"
#include "netpoll.h"

static int opened(const char *path)
{
	int fd = open(path, O_RDONLY);

	EXPECT(fd >= 0);
	return fd;
}

TEST(files_of_the_kernel_s_own_take_and_others_do_not)
{
	start(1);
	EXPECT(netpoll_takes(opened("/proc/self/mounts")));
	/* A set refuses these. */
	EXPECT(!netpoll_takes(opened("/proc/self/exe")));
	EXPECT(!netpoll_takes(opened("/dev/null")));
}

TEST(from_the_first_set_with_such_a_file_on_all_sets_take)
{
	int set = epoll_create1(0);

	start(1);
	EXPECT(!netpoll_takes(set));
	netpoll_taken();
	EXPECT(netpoll_takes(set));
}
