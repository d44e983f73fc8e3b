/* GLib: its mutexes, conditions and queues are raw futex calls; pools, private data, main loops
 * that threads wake. */
#include <gio/gio.h>
#include <stdio.h>
#include <stdlib.h>

#include "must.h"

enum { TEAM = 10, TURNS = 500 };
static GMutex lock;
static GCond turned;
static int turn, dropped, posted;
static gint done;
static GPrivate mine = G_PRIVATE_INIT(NULL);

static void drop(gpointer p)
{
	g_free(p);
	g_atomic_int_inc(&dropped);
}
static GPrivate with_end = G_PRIVATE_INIT(drop);

static gpointer player(gpointer arg)
{
	int me = GPOINTER_TO_INT(arg);

	g_private_set(&mine, arg);
	g_private_set(&with_end, g_malloc(10));
	for (int i = 0; i < TURNS; i++) {
		g_mutex_lock(&lock);
		while (turn % TEAM != me)
			g_cond_wait(&turned, &lock);
		turn++;
		g_cond_broadcast(&turned);
		g_mutex_unlock(&lock);
	}
	MUST(g_private_get(&mine) == arg);
	return arg;
}

static void job(gpointer item, gpointer queue)
{
	g_atomic_int_add(&done, GPOINTER_TO_INT(item));
	g_async_queue_push(queue, item);
}

static gboolean post(gpointer loop)
{
	if (++posted == 1000)
		g_main_loop_quit(loop);
	return G_SOURCE_REMOVE;
}

static gpointer poster(gpointer loop)
{
	for (int i = 0; i < 100; i++)
		g_idle_add(post, loop);
	return NULL;
}

static void task(GTask *t, gpointer source, gpointer data, GCancellable *c)
{
	(void)source;
	(void)c;
	g_task_return_int(t, GPOINTER_TO_INT(data) * 2);
}

static void task_done(GObject *o, GAsyncResult *r, gpointer left)
{
	(void)o;
	MUST(g_task_propagate_int(G_TASK(r), NULL) == 42);
	--*(int *)left;
}

int main(void)
{
	GThread *t[TEAM];
	GAsyncQueue *q = g_async_queue_new();
	GThreadPool *pool = g_thread_pool_new(job, q, 8, FALSE, NULL);
	GMainLoop *loop = g_main_loop_new(NULL, FALSE);
	long sum = 0;
	int left = 50;

	for (int i = 0; i < TEAM; i++)
		t[i] = g_thread_new("player", player, GINT_TO_POINTER(i));
	for (int i = 0; i < TEAM; i++)
		MUST(g_thread_join(t[i]) == GINT_TO_POINTER(i));
	MUST(turn == TEAM * TURNS && dropped == TEAM);
	for (int i = 1; i <= 2000; i++)
		MUST(g_thread_pool_push(pool, GINT_TO_POINTER(i), NULL));
	for (int i = 1; i <= 2000; i++)
		sum += GPOINTER_TO_INT(g_async_queue_pop(q));
	MUST(sum == 2001000 && done == 2001000);
	g_thread_pool_free(pool, FALSE, TRUE);
	for (int i = 0; i < TEAM; i++)
		t[i] = g_thread_new("poster", poster, loop);
	g_main_loop_run(loop);
	for (int i = 0; i < TEAM; i++)
		g_thread_join(t[i]);
	MUST(posted == 1000);
	for (int i = 0; i < 50; i++) {
		GTask *x = g_task_new(NULL, NULL, task_done, &left);
		g_task_set_task_data(x, GINT_TO_POINTER(21), NULL);
		g_task_run_in_thread(x, task);
		g_object_unref(x);
	}
	while (left > 0)
		g_main_context_iteration(NULL, TRUE);
	puts("all good");
	return 0;
}
