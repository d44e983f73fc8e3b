/* A lock let go too early, depth 3: who reads two accounts, one after the other, compares a version
 * before and after, which the writer changes first and not last. So it is wrong if the writer is
 * stopped behind the version, then the reader between its two reads, and no otherwise. */
#include <pthread.h>
#include <stdio.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int version, a = 100, b = 100;

static int get(const int *from)
{
	int value;

	pthread_mutex_lock(&lock);
	value = *from;
	pthread_mutex_unlock(&lock);
	return value;
}

static void add(int *to, int n)
{
	pthread_mutex_lock(&lock);
	*to += n;
	pthread_mutex_unlock(&lock);
}

static void *move(void *arg)
{
	(void)arg;
	add(&version, 1);
	add(&b, 30);
	add(&a, -30);
	return NULL;
}

static void *audit(void *arg)
{
	int *sum = arg, before;

	do {
		before = get(&version);
		*sum = get(&b);
		*sum += get(&a);
	} while (get(&version) != before);
	/* A sum that is too high for a moment is expected: b is paid first. */
	if (*sum > 200)
		*sum = 200;
	return NULL;
}

int main(void)
{
	pthread_t t[2];
	int sum = 0;

	if (pthread_create(&t[0], NULL, move, NULL) != 0 ||
	    pthread_create(&t[1], NULL, audit, &sum) != 0)
		return 2;
	pthread_join(t[0], NULL);
	pthread_join(t[1], NULL);
	printf("sum %d\n", sum);
	return sum != 200;
}
