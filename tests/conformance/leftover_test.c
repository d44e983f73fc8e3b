/* What a thread leaves behind, and the next, which may have its place, does not find. The same
 * holds natively. */
#include "threads.h"

#include <dlfcn.h>
#include <netdb.h>
#include <resolv.h>

/* ---- what the C library keeps of a thread ---- */

static void *fails(void *arg)
{
	EXPECT(!dlopen("/nonexistent.so", RTLD_NOW));
	h_errno = 3;
	EXPECT_EQ(res_init(), 0);
	EXPECT(_res.options & RES_INIT);
	_res.options |= RES_USEVC;
	return arg;
}

static void *knows_nothing(void *arg)
{
	EXPECT(!dlerror());
	EXPECT_EQ(h_errno, 0);
	EXPECT_EQ(_res.options, 0);
	return arg;
}

TEST(a_thread_hears_of_no_error_of_the_one_before)
{
	for (int i = 0; i < 3; i++) {
		on_thread(knows_nothing, NULL);
		on_thread(fails, NULL);
		on_thread(knows_nothing, NULL);
	}
}

/* ---- objects that are made too late ---- */

int __cxa_thread_atexit_impl(void (*fn)(void *), void *object, void *library);
extern void *__dso_handle;

static pthread_key_t key;
static int called;

static void is_called(void *object)
{
	EXPECT_EQ(*(int *)object, 5);
	called++;
}

static __thread int object;

static void registers(void *arg)
{
	(void)arg;
	object = 5;
	EXPECT_EQ(__cxa_thread_atexit_impl(is_called, &object, &__dso_handle), 0);
}

static void *has_a_value(void *arg)
{
	EXPECT_EQ(pthread_setspecific(key, &called), 0);
	if (arg)
		registers(NULL);
	return NULL;
}

/* By then those of the thread have been destroyed. */
TEST(what_a_keys_destructor_makes_thread_local_is_nobodys)
{
	EXPECT_EQ(pthread_key_create(&key, registers), 0);
	for (int i = 1; i <= 3; i++) {
		on_thread(has_a_value, NULL);
		EXPECT_EQ(called, i - 1);
		on_thread(has_a_value, &called);
		EXPECT_EQ(called, i);
	}
}
