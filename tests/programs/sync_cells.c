// Spinlocks, read-write locks, semaphores and signals to nobody, taken one after the other (for as many rounds as the argument
// says): whoever was there before shows in a number that goes from object to object. Most take no event in a demo. Of one
// kind there are more objects than the engine has cells for.
#include <semaphore.h>

#include "sync.h"

#define THREADS 4
#define COMMON 3
#define MANY 6000
#define ROOM 4

static struct { _Alignas(64) pthread_spinlock_t lock; unsigned long number; } spun[COMMON];
static struct { _Alignas(64) pthread_rwlock_t lock; unsigned long number; } shared[COMMON];
static struct { sem_t lock; unsigned long number; } many[MANY];
static sem_t full, empty, in, out;
static unsigned long ring[ROOM], put, got;
static pthread_cond_t nobody = PTHREAD_COND_INITIALIZER;
static int rounds = 2500;

static unsigned long step(unsigned long number, unsigned long with)
{
	return (number ^ with) * 0x9e3779b97f4a7c15 + 1;
}

static unsigned long spin(int which, unsigned long seen, int try)
{
	if (!try || pthread_spin_trylock(&spun[which].lock))
		pthread_spin_lock(&spun[which].lock);
	seen = spun[which].number = step(spun[which].number, seen);
	pthread_spin_unlock(&spun[which].lock);
	return seen;
}

static unsigned long look(int which, unsigned long seen, int try)
{
	if (!try || pthread_rwlock_tryrdlock(&shared[which].lock))
		pthread_rwlock_rdlock(&shared[which].lock);
	seen = step(seen, shared[which].number);
	pthread_rwlock_unlock(&shared[which].lock);
	return seen;
}

static unsigned long change(int which, unsigned long seen, int try)
{
	if (!try || pthread_rwlock_trywrlock(&shared[which].lock))
		pthread_rwlock_wrlock(&shared[which].lock);
	seen = shared[which].number = step(shared[which].number, seen);
	pthread_rwlock_unlock(&shared[which].lock);
	return seen;
}

static unsigned long pass(int which, unsigned long seen, int try)
{
	if (!try || sem_trywait(&many[which].lock))
		sem_wait(&many[which].lock);
	seen = many[which].number = step(many[which].number, seen);
	sem_post(&many[which].lock);
	return seen;
}

// Half of the threads give what the other half takes.
static unsigned long hand(long me, unsigned long seen)
{
	sem_t *wait = me % 2 ? &full : &empty, *place = me % 2 ? &out : &in, *post = me % 2 ? &empty : &full;
	sem_wait(wait);
	sem_wait(place);
	if (me % 2)
		seen = step(seen, ring[got++ % ROOM]);
	else
		ring[put++ % ROOM] = seen;
	sem_post(place);
	sem_post(post);
	return seen;
}

static void *work(void *arg)
{
	long me = (long)arg;
	unsigned long seen = me, drawn = me + 1;
	for (int i = 0; i < rounds; i++) {
		drawn = drawn * 6364136223846793005 + 1442695040888963407;
		int try = drawn >> 62, which = (drawn >> 40) % COMMON;
		for (volatile int wait = drawn >> 33 & 63; wait; wait--)
			;
		switch (drawn >> 50 & 7) {
		case 0: seen = spin(which, seen, try); break;
		case 1: seen = change(which, seen, try); break;
		case 2: seen = pass(which, seen, try); break;
		case 3: seen = pass((drawn >> 20) % MANY, seen, try); break;
		case 4: pthread_cond_signal(&nobody); break;
		default: seen = look(which, seen, try);
		}
		if (i % 8 == 0) // as often in each thread
			seen = hand(me, seen);
	}
	return (void *)seen;
}

int main(int argc, char **argv)
{
	rounds = argc > 1 ? atoi(argv[1]) : rounds;
	for (int i = 0; i < COMMON; i++) {
		pthread_spin_init(&spun[i].lock, 0);
		pthread_rwlock_init(&shared[i].lock, NULL);
	}
	for (int i = 0; i < MANY; i++)
		sem_init(&many[i].lock, 0, 1);
	sem_init(&full, 0, 0);
	sem_init(&empty, 0, ROOM);
	sem_init(&in, 0, 1);
	sem_init(&out, 0, 1);
	print_all(THREADS, work);
	for (int i = 0; i < COMMON; i++)
		printf("%lx %lx ", spun[i].number, shared[i].number);
	printf("\n");
	return 0;
}
