// A program with a setting of its own for the time stamp counter: it finds what it set, its threads and children inherit it,
// and where it wishes the instruction to fault, it does. What natively differs is the counter at the end.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf out;
static volatile int codes, trying;

static uint64_t counter(void)
{
	uint32_t low, high;
	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	return (uint64_t)high << 32 | low;
}

static void on_fault(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	if (!trying)
		_exit(99);
	codes += info->si_code == SI_KERNEL && !info->si_addr;
	siglongjmp(out, 1);
}

static int setting(void)
{
	int value = -1;
	prctl(PR_GET_TSC, &value);
	return value;
}

static const char *tried(void)
{
	const char *volatile found = "faults";
	trying = 1;
	if (!sigsetjmp(out, 1))
		found = counter() ? "reads" : "is zero";
	trying = 0;
	return found;
}

static void *inherited(void *result)
{
	snprintf(result, 32, "%d %s", setting(), tried());
	return NULL;
}

static void show(const char *when)
{
	char thread[32];
	pthread_t id;
	pthread_create(&id, NULL, inherited, thread);
	pthread_join(id, NULL);
	printf("%s: %d %s, a thread %s, a child ", when, setting(), tried(), thread);
	fflush(stdout);
	pid_t child = fork();
	if (!child)
		_exit(setting() * 2 + (strcmp(tried(), "faults") == 0));
	int status;
	waitpid(child, &status, 0);
	printf("%d %s\n", WEXITSTATUS(status) / 2, WEXITSTATUS(status) % 2 ? "faults" : "reads");
}

int main(void)
{
	struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
	sigaction(SIGSEGV, &action, NULL);
	show("at first");
	printf("refused: %d %d\n", prctl(PR_SET_TSC, 7), prctl(PR_GET_TSC, 1));
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
	show("forbidden");
	prctl(PR_SET_TSC, PR_TSC_ENABLE);
	show("allowed");
	printf("%d faults, %llx\n", codes, (unsigned long long)counter());
	return 0;
}
