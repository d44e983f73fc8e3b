/* Two ends of one connection. */
#ifndef CONFORMANCE_PAIR_H
#define CONFORMANCE_PAIR_H

#include "common.h"

#include <netinet/in.h>

/* Binds fd to a port of its own, and says which. */
static inline void own_address(int fd, struct sockaddr_in *at)
{
	socklen_t len = sizeof(*at);

	*at = (struct sockaddr_in){ .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	EXPECT_EQ(bind(fd, (struct sockaddr *)at, sizeof(*at)), 0);
	EXPECT_EQ(getsockname(fd, (struct sockaddr *)at, &len), 0);
}

static inline void tcp_pair(int fd[2])
{
	struct sockaddr_in at;
	int l = socket(AF_INET, SOCK_STREAM, 0);

	own_address(l, &at);
	EXPECT_EQ(listen(l, 4), 0);
	fd[1] = socket(AF_INET, SOCK_STREAM, 0);
	EXPECT_EQ(connect(fd[1], (struct sockaddr *)&at, sizeof(at)), 0);
	fd[0] = accept(l, NULL, NULL);
	EXPECT(fd[0] >= 0);
	EXPECT_EQ(close(l), 0);
}

#endif
