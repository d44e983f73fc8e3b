/* Deadlock of two locks taken in two orders, depth 2. */
#include <pthread.h>
#include <stdio.h>

enum { WHILE = 300 * 1000 };

static pthread_mutex_t from = PTHREAD_MUTEX_INITIALIZER, to = PTHREAD_MUTEX_INITIALIZER;
static int a = 100, b = 100;

static void *pay(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&from);
	pthread_mutex_lock(&to);
	a--;
	b++;
	pthread_mutex_unlock(&to);
	pthread_mutex_unlock(&from);
	return NULL;
}

static void *audit(void *arg)
{
	int *sum = arg;

	pthread_mutex_lock(&to);
	pthread_mutex_lock(&from);
	*sum = a + b;
	pthread_mutex_unlock(&from);
	pthread_mutex_unlock(&to);
	return NULL;
}

int main(void)
{
	pthread_t t[2];
	int sum = 0;

	if (pthread_create(&t[0], NULL, pay, NULL) != 0)
		return 2;
	/* Natively the first has long ended when the second begins. */
	for (volatile int i = 0; i < WHILE; i++)
		continue;
	if (pthread_create(&t[1], NULL, audit, &sum) != 0)
		return 2;
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	printf("sum %d\n", sum);
	return 0;
}
