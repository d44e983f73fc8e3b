/* Order violation, depth 1: a thread does its work and then notes that it is done where its creator
 * has written it down meanwhile: the creator has had all the time in the world. */
#include <pthread.h>
#include <stdio.h>

enum { WORK = 16 * 1000 * 1000 };

struct worker {
	pthread_t thread;
	unsigned sum;
	int done;
};

static struct worker only, *registered;

static void *work(void *arg)
{
	struct worker *self = arg;

	for (unsigned i = 0; i < WORK; i++)
		self->sum += i ^ self->sum >> 3;
	registered->done = 1;
	return NULL;
}

int main(void)
{
	if (pthread_create(&only.thread, NULL, work, &only) != 0)
		return 2;
	registered = &only;
	pthread_join(only.thread, NULL);
	printf("done %d\n", only.done);
	return 0;
}
