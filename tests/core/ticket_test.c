/* A ticket from before there was anything that counts the events of a descriptor. */
#include "host.h"
#include "netpoll.h"
#include "raw.h"

enum { ETIMEDOUT_ = 110 };

static int line[2];

static int wait_for(uint32_t ticket, uint64_t ns)
{
	struct deadline d = { CLOCK_MONOTONIC, nanotime() + ns };

	return netpoll_wait(line[0], POLL_READ, ticket, &d);
}

TEST(who_has_it_sleeps_if_nothing_was_closed)
{
	start(1);
	raw_pipe(line, RAW_NONBLOCK);
	EXPECT_EQ(wait_for(netpoll_ticket(line[0], POLL_READ), MS), -ETIMEDOUT_);
}

TEST(who_has_it_tries_again_if_it_was_closed)
{
	uint32_t ticket;

	start(1);
	raw_pipe(line, RAW_NONBLOCK);
	ticket = netpoll_ticket(line[0], POLL_READ);
	netpoll_closed(line[0]);
	/* There is nothing to read, whatever it is now. */
	EXPECT_EQ(wait_for(ticket, 1000 * (uint64_t)MS), 0);
	EXPECT_EQ(wait_for(netpoll_ticket(line[0], POLL_READ), MS), -ETIMEDOUT_);
}
