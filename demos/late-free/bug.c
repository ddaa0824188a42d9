// A session is freed by whoever closes it, while the other thread still writes its log line into it. The block is
// given to the next session by then: one customer's line stands in another one's session.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct session {
	int number;
	char line[28];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct session *current;

static struct session *open_session(int number)
{
	struct session *session = malloc(sizeof *session);
	session->number = number;
	snprintf(session->line, sizeof session->line, "hello %d", number);
	return session;
}

static void write_log(struct session *session, int number)
{
	usleep(1); // the log is slow
	snprintf(session->line, sizeof session->line, "goodbye %d", number);
}

static void *logger(void *arg)
{
	for (int i = 0; i < 50; i++) {
		pthread_mutex_lock(&lock);
		struct session *session = current;
		int number = session->number;
		pthread_mutex_unlock(&lock);
		write_log(session, number);
	}
	return arg;
}

static void *server(void *arg)
{
	for (int i = 1; i < 50; i++) {
		pthread_mutex_lock(&lock);
		free(current);
		current = open_session(i);
		pthread_mutex_unlock(&lock);
		usleep(1);
		int wrong = strncmp(current->line, "goodbye", 7) == 0 && atoi(current->line + 8) != current->number;
		if (wrong) {
			fprintf(stderr, "session %d says: %s\n", current->number, current->line);
			abort();
		}
	}
	return arg;
}

int main(void)
{
	pthread_t one, two;
	current = open_session(0);
	pthread_create(&one, NULL, logger, NULL);
	pthread_create(&two, NULL, server, NULL);
	pthread_join(one, NULL);
	pthread_join(two, NULL);
	return 0;
}
