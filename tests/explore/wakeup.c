/* Lost wake-up, depth 2: whether there is something to take is asked outside the lock, and waited
 * for in it. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER;
static volatile int there;

static void *consume(void *arg)
{
	(void)arg;
	if (!there) {
		pthread_mutex_lock(&lock);
		pthread_cond_wait(&filled, &lock);
		pthread_mutex_unlock(&lock);
	}
	return NULL;
}

static void *produce(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&lock);
	there = 1;
	pthread_cond_signal(&filled);
	pthread_mutex_unlock(&lock);
	return NULL;
}

int main(void)
{
	pthread_t a, b;

	if (pthread_create(&a, NULL, consume, NULL) != 0 ||
	    pthread_create(&b, NULL, produce, NULL) != 0)
		return 2;
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	puts("taken");
	return 0;
}
