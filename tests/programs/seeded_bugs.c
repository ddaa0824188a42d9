// Ten small bugs of threads, one for each name. What natively differs from run to run is, once in a great many runs, the exit
// status: each thread is done before the next one comes, because between the two there is a long computation. Where one thread
// runs at a time that counts for nothing.
#include "sync.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER, log_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static volatile long counter;
static int failed, lines;

// As every program has it: something in the middle that takes a lock of its own.
static void write_log(void)
{
	pthread_mutex_lock(&log_lock);
	lines++;
	pthread_mutex_unlock(&log_lock);
}

// `computing`: millions of steps between two threads.
static void run(int computing, int count, void *(*const each[])(void *))
{
	pthread_t threads[8];
	for (intptr_t i = 0; i < count; i++) {
		CHECK(!pthread_create(&threads[i], NULL, each[i], (void *)i));
		for (volatile long n = 0; n < computing * 1000000L; n++)
			;
	}
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

// ---------------------------------------------------------------- the lock is given back between reading and writing
static void *add_one(void *arg)
{
	pthread_mutex_lock(&a);
	long seen = counter;
	pthread_mutex_unlock(&a);
	pthread_mutex_lock(&a);
	counter = seen + 1;
	pthread_mutex_unlock(&a);
	return arg;
}

static void lost_update(void)
{
	run(4, 2, (void *(*const[])(void *)){add_one, add_one});
	failed = counter != 2;
}

// ---------------------------------------------------------------- one of them takes another lock
static void add_under(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	long seen = counter;
	write_log();
	counter = seen + 1;
	pthread_mutex_unlock(lock);
}

static void *add_right(void *arg)
{
	add_under(&a);
	return arg;
}

static void *add_wrong(void *arg)
{
	add_under(&b);
	return arg;
}

static void wrong_lock(void)
{
	run(12, 2, (void *(*const[])(void *)){add_right, add_wrong});
	failed = counter != 2;
}

// ---------------------------------------------------------------- signalled between looking and waiting
static atomic_int ready;

static void *wait_for_it(void *arg)
{
	if (!atomic_load(&ready)) {
		pthread_mutex_lock(&a);
		pthread_cond_wait(&cond, &a);
		pthread_mutex_unlock(&a);
	}
	return arg;
}

static void *tell(void *arg)
{
	write_log();
	atomic_store(&ready, 1);
	pthread_cond_signal(&cond);
	return arg;
}

static void missed_signal(void)
{
	run(4, 2, (void *(*const[])(void *)){wait_for_it, tell});
}

// ---------------------------------------------------------------- used before it is made
static long *made;

static void *make(void *arg)
{
	write_log();
	made = calloc(1, sizeof *made);
	return arg;
}

static void *use(void *arg)
{
	*made += 1;
	return arg;
}

static void order_violation(void)
{
	run(30, 2, (void *(*const[])(void *)){make, use});
}

// ---------------------------------------------------------------- two locks in two orders
static void *a_then_b(void *arg)
{
	pthread_mutex_lock(&a);
	pthread_mutex_lock(&b);
	pthread_mutex_unlock(&b);
	pthread_mutex_unlock(&a);
	return arg;
}

static void *b_then_a(void *arg)
{
	pthread_mutex_lock(&b);
	pthread_mutex_lock(&a);
	pthread_mutex_unlock(&a);
	pthread_mutex_unlock(&b);
	return arg;
}

static void deadlock(void)
{
	run(12, 2, (void *(*const[])(void *)){a_then_b, b_then_a});
}

// ---------------------------------------------------------------- a pointer that is kept over the end of the lock
static struct session { int alive; } *session;

static void *serve(void *arg)
{
	pthread_mutex_lock(&a);
	struct session *mine = session;
	pthread_mutex_unlock(&a);
	write_log();
	if (mine && !mine->alive)
		failed = 1;
	return arg;
}

static void *hang_up(void *arg)
{
	pthread_mutex_lock(&a);
	session->alive = 0;
	free(session);
	session = NULL;
	pthread_mutex_unlock(&a);
	return arg;
}

static void use_after_free(void)
{
	session = malloc(sizeof *session);
	session->alive = 1;
	run(4, 2, (void *(*const[])(void *)){serve, hang_up});
}

// ---------------------------------------------------------------- looked up under the lock, entered under the lock
static int entries;

static int is_there(void)
{
	pthread_mutex_lock(&a);
	int there = entries > 0;
	pthread_mutex_unlock(&a);
	return there;
}

static void *enter_once(void *arg)
{
	if (!is_there()) {
		pthread_mutex_lock(&a);
		entries++;
		pthread_mutex_unlock(&a);
	}
	return arg;
}

static void check_then_act(void)
{
	run(12, 3, (void *(*const[])(void *)){enter_once, enter_once, enter_once});
	failed = entries != 1;
}

// ---------------------------------------------------------------- published before it is whole
static struct { int whole; } thing;
static _Atomic(void *) published;

static void *get_thing(void *arg)
{
	if (!atomic_load(&published)) {
		pthread_mutex_lock(&a);
		if (!atomic_load(&published)) {
			atomic_store(&published, &thing);
			write_log();
			thing.whole = 1;
		}
		pthread_mutex_unlock(&a);
	}
	if (!thing.whole)
		failed = 1;
	return arg;
}

static void double_checked(void)
{
	run(4, 2, (void *(*const[])(void *)){get_thing, get_thing});
}

// ---------------------------------------------------------------- the top is the same one again, what is below it is not
static struct node { struct node *below; int taken; } nodes[3];
static _Atomic(struct node *) top;

static struct node *pop(int slowly)
{
	struct node *seen = atomic_load(&top), *below;
	do {
		if (!seen)
			return NULL;
		below = seen->below;
		if (slowly)
			write_log();
	} while (!atomic_compare_exchange_strong(&top, &seen, below));
	if (seen->taken++)
		failed = 1;
	return seen;
}

static void push(struct node *node)
{
	node->taken = 0;
	node->below = atomic_load(&top);
	while (!atomic_compare_exchange_strong(&top, &node->below, node))
		;
}

static void *pop_slowly(void *arg)
{
	pop(1);
	pop(0);
	return arg;
}

static void *pop_two_push_one(void *arg)
{
	struct node *first = pop(0);
	write_log();
	pop(0);
	write_log();
	if (first)
		push(first);
	return arg;
}

static void aba_stack(void)
{
	for (int i = 2; i >= 0; i--)
		push(&nodes[i]);
	run(4, 2, (void *(*const[])(void *)){pop_slowly, pop_two_push_one});
}

// ---------------------------------------------------------------- `if` where `while` belongs
static int items;

static void *consume(void *arg)
{
	pthread_mutex_lock(&a);
	if (!items)
		pthread_cond_wait(&cond, &a);
	if (--items < 0)
		failed = 1;
	pthread_mutex_unlock(&a);
	return arg;
}

static void *produce(void *arg)
{
	for (int i = 0; i < 2; i++) {
		pthread_mutex_lock(&a);
		items++;
		pthread_cond_signal(&cond);
		pthread_mutex_unlock(&a);
	}
	return arg;
}

static void bounded_buffer(void)
{
	run(4, 3, (void *(*const[])(void *)){consume, produce, consume});
}

static const struct { const char *name; void (*run)(void); } bugs[] = {
	{"lost_update", lost_update},       {"wrong_lock", wrong_lock},         {"missed_signal", missed_signal},
	{"order_violation", order_violation}, {"deadlock", deadlock},           {"use_after_free", use_after_free},
	{"check_then_act", check_then_act}, {"double_checked", double_checked}, {"aba_stack", aba_stack},
	{"bounded_buffer", bounded_buffer},
};

int main(int argc, char **argv)
{
	for (unsigned i = 0; argc > 1 && i < sizeof bugs / sizeof *bugs; i++)
		if (!strcmp(argv[1], bugs[i].name)) {
			bugs[i].run();
			printf("%s: %s\n", argv[1], failed ? "failed" : "good");
			return failed;
		}
	return 2;
}
