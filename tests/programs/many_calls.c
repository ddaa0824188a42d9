// Five threads whose calls come to the same sites for the first time together, and again and again: sites that load the
// number right in front, sites that do not, the vDSO, syscall(2), and the program's own instruction.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS 5

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t all_here = PTHREAD_COND_INITIALIZER;
static int here, round_number;
static long wrong;

static long own(long nr, long a)
{
	long ret;
	__asm__ volatile("syscall" : "=a"(ret) : "a"(nr), "D"(a) : "rcx", "r11", "memory");
	return ret;
}

static void check(int good)
{
	if (!good)
		__atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void meet(void)
{
	pthread_mutex_lock(&lock);
	int mine = round_number;
	if (++here == THREADS) {
		here = 0;
		round_number++;
		pthread_cond_broadcast(&all_here);
	}
	while (mine == round_number)
		pthread_cond_wait(&all_here, &lock);
	pthread_mutex_unlock(&lock);
}

static void *work(void *unused)
{
	char c = 0;
	int fd = open("/dev/zero", O_RDONLY);
	struct timespec t;
	for (int i = 0; i < 300; i++) {
		if (i < 30) // together through the first calls of each site, which are when it is patched
			meet();
		check(getpid() == syscall(SYS_getpid));
		check(own(SYS_getpid, 0) == getpid());
		check(own(SYS_close, -1) == -9);
		check(clock_gettime(CLOCK_MONOTONIC, &t) == 0);
		check(read(fd, &c, 1) == 1 && c == 0);
		check(read(-1, &c, 1) == -1);
		check(lseek(fd, 0, SEEK_CUR) == 0);
		check(access("/nowhere", F_OK) == -1);
	}
	close(fd);
	return unused;
}

int main(void)
{
	pthread_t other[THREADS - 1];
	for (int i = 0; i < THREADS - 1; i++)
		pthread_create(&other[i], NULL, work, NULL);
	work(NULL);
	for (int i = 0; i < THREADS - 1; i++)
		pthread_join(other[i], NULL);
	printf("wrong %ld\n", wrong);
	return wrong != 0;
}
