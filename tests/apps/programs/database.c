// A database file that four threads write to and read from, each through a connection of its own.
// Runs in: tests of real programs. May call: sqlite3.
// Owns: the file; who wrote which row depends on who came first, and is printed.

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

enum { WRITERS = 4, ROWS = 25 };

static const char *path;

static void check(sqlite3 *db, int status)
{
	if (status != SQLITE_OK && status != SQLITE_DONE && status != SQLITE_ROW) {
		fprintf(stderr, "%s\n", sqlite3_errmsg(db));
		exit(1);
	}
}

static sqlite3 *opened(void)
{
	sqlite3 *db;
	check(NULL, sqlite3_open(path, &db));
	check(db, sqlite3_busy_timeout(db, 60000));
	return db;
}

__attribute__((noinline)) void wrote(int writer)
{
	__asm__ volatile("" : : "r"(writer) : "memory");
}

static void *write_rows(void *number)
{
	int writer = (int)(long)number;
	sqlite3 *db = opened();
	sqlite3_stmt *insert;
	check(db, sqlite3_prepare_v2(db, "insert into t(writer, value) values (?, random() % 1000)", -1, &insert, NULL));
	for (int i = 0; i < ROWS; i++) {
		check(db, sqlite3_bind_int(insert, 1, writer));
		check(db, sqlite3_step(insert));
		check(db, sqlite3_reset(insert));
		wrote(writer);
	}
	sqlite3_finalize(insert);
	sqlite3_close(db);
	return NULL;
}

static int print_row(void *nothing, int columns, char **values, char **names)
{
	(void)nothing, (void)columns, (void)names;
	printf("%s:%s ", values[0], values[1]);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[WRITERS];
	if (argc < 2)
		return 2;
	path = argv[1];
	sqlite3 *db = opened();
	check(db, sqlite3_exec(db, "pragma journal_mode=wal; pragma synchronous=off", NULL, NULL, NULL));
	check(db, sqlite3_exec(db, "create table t(id integer primary key, writer, value)", NULL, NULL, NULL));
	for (long i = 0; i < WRITERS; i++)
		pthread_create(&threads[i], NULL, write_rows, (void *)i);
	for (int i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	check(db, sqlite3_exec(db, "select writer, value from t order by id", print_row, NULL, NULL));
	putchar('\n');
	sqlite3_close(db);
	return 0;
}
