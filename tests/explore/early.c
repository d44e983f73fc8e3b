/* A lock let go too early, depth 2: what was read in one stay is written back in the next. */
#include <pthread.h>
#include <stdio.h>

enum { WHILE = 300 * 1000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int balance;

static void *deposit(void *arg)
{
	int seen;

	(void)arg;
	pthread_mutex_lock(&lock);
	seen = balance;
	pthread_mutex_unlock(&lock);
	pthread_mutex_lock(&lock);
	balance = seen + 10;
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(void)
{
	pthread_t t[2];

	for (int i = 0; i < 2; i++) {
		if (pthread_create(&t[i], NULL, deposit, NULL) != 0)
			return 2;
		/* Natively the first has long ended when the second begins. */
		for (volatile int k = 0; k < WHILE; k++)
			continue;
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	printf("balance %d\n", balance);
	return balance != 20;
}
