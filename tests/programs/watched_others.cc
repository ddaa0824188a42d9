// What a member function watches through `this`, a local or a register, another thread changes; a thread's own variable.
#include <cstdio>
#include <pthread.h>

struct Box {
	int held;
	int own;
	void work(pthread_t other);
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static thread_local int mine;

static void *other(void *argument)
{
	Box *box = static_cast<Box *>(argument);
	for (int turn = 7; turn < 9; turn++) {
		pthread_mutex_lock(&mutex);
		box->held = turn;
		mine = 100 + turn;
		pthread_mutex_unlock(&mutex);
	}
	return nullptr;
}

static void reached(void)
{
}

void Box::work(pthread_t thread)
{
	int *local = &held;
	pthread_mutex_lock(&mutex);
	*local = 1;
	mine = 1;
	pthread_mutex_unlock(&mutex);
	pthread_join(thread, nullptr);
	pthread_mutex_lock(&mutex);
	held = 9;
	mine = 2;
	pthread_mutex_unlock(&mutex);
	reached();
}

int main()
{
	Box box = {0, 0};
	pthread_t thread;
	pthread_mutex_lock(&mutex);
	pthread_create(&thread, nullptr, other, &box);
	mine = 5;
	// Only behind this does the other thread have its turn.
	pthread_mutex_unlock(&mutex);
	box.work(thread);
	printf("%d %d\n", box.held, mine);
	return 0;
}
