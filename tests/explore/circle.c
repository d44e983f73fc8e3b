/* Deadlock of three locks, depth 3: each of three threads takes its own and then the next one's. */
#include <pthread.h>
#include <stdio.h>

enum { N = 3 };

static pthread_mutex_t fork_of[N] = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
				      PTHREAD_MUTEX_INITIALIZER };
static int meals;

static void *dine(void *arg)
{
	int i = (int)(long)arg;

	pthread_mutex_lock(&fork_of[i]);
	pthread_mutex_lock(&fork_of[(i + 1) % N]);
	__atomic_add_fetch(&meals, 1, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&fork_of[(i + 1) % N]);
	pthread_mutex_unlock(&fork_of[i]);
	return NULL;
}

int main(void)
{
	pthread_t t[N];

	for (long i = 0; i < N; i++)
		if (pthread_create(&t[i], NULL, dine, (void *)i) != 0)
			return 2;
	for (int i = 0; i < N; i++)
		pthread_join(t[i], NULL);
	printf("meals %d\n", meals);
	return 0;
}
