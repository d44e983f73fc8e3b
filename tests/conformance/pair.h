/* Two ends of one connection. */
#ifndef CONFORMANCE_PAIR_H
#define CONFORMANCE_PAIR_H

#include "common.h"

#include <netinet/in.h>

static inline void tcp_pair(int fd[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	int l = socket(AF_INET, SOCK_STREAM, 0);

	EXPECT_EQ(bind(l, (struct sockaddr *)&at, sizeof(at)), 0);
	EXPECT_EQ(getsockname(l, (struct sockaddr *)&at, &len), 0);
	EXPECT_EQ(listen(l, 4), 0);
	fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(connect(fd[1], (struct sockaddr *)&at, sizeof(at)), 0);
	fd[0] = accept(l, NULL, NULL);
	EXPECT(fd[0] >= 0);
	EXPECT_EQ(close(l), 0);
}

#endif
