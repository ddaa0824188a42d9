// GLib's main loop with timers, idle work, a pipe that is watched, and a pool of threads.
// Runs in: tests of real programs. May call: glib.
// Owns: the order in which things happened, which it prints.

#include <glib.h>
#include <glib-unix.h>
#include <stdio.h>
#include <unistd.h>

static GMainLoop *loop;
static GString *seen;
static int ticks;
static gint worked;

static gboolean on_tick(gpointer name)
{
	g_string_append(seen, name);
	if (++ticks == 60)
		g_main_loop_quit(loop);
	return G_SOURCE_CONTINUE;
}

static gboolean on_byte(gint fd, GIOCondition condition, gpointer data)
{
	char byte;
	(void)condition, (void)data;
	if (read(fd, &byte, 1) == 1)
		g_string_append_c(seen, byte);
	return G_SOURCE_CONTINUE;
}

static gboolean on_idle(gpointer data)
{
	g_string_append_c(seen, 'i');
	return GPOINTER_TO_INT(data) > 0 && ticks < 10 ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

static void work(gpointer item, gpointer data)
{
	int *pipe_ends = data;
	char byte = (char)('0' + GPOINTER_TO_INT(item) % 10);
	g_atomic_int_inc(&worked);
	if (write(pipe_ends[1], &byte, 1) != 1)
		g_error("the pipe is closed");
}

int main(void)
{
	int ends[2];
	g_unix_open_pipe(ends, 0, NULL);
	seen = g_string_new("");
	loop = g_main_loop_new(NULL, FALSE);
	GThreadPool *pool = g_thread_pool_new(work, ends, 3, FALSE, NULL);
	for (int i = 1; i <= 40; i++)
		g_thread_pool_push(pool, GINT_TO_POINTER(i), NULL);
	g_timeout_add(1, on_tick, "a");
	g_timeout_add(3, on_tick, "b");
	g_unix_fd_add(ends[0], G_IO_IN, on_byte, NULL);
	g_idle_add(on_idle, GINT_TO_POINTER(0));
	g_main_loop_run(loop);
	g_thread_pool_free(pool, FALSE, TRUE);
	printf("%s %d %u\n", seen->str, worked, g_random_int());
	return worked != 40;
}
