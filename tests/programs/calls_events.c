// Descriptors that tell of events: epoll, eventfd, signalfd, timerfd, inotify, pidfd, pipes with splice and tee.
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WAIT_PIDFD 3 // P_PIDFD; glibc 2.36 was the first to name it

#pragma GCC diagnostic ignored "-Wunused-result" // what matters is printed

static int event;

static void *post(void *unused)
{
	for (int i = 0; i < 20; i++) {
		struct timespec now, pause = {0, 100000};
		clock_gettime(CLOCK_REALTIME, &now);
		uint64_t value = now.tv_nsec;
		write(event, &value, sizeof value);
		nanosleep(&pause, NULL);
	}
	return unused;
}

int main(void)
{
	char directory[] = "/tmp/calls-events-XXXXXX", path[60];
	uint64_t value, total = 0;
	sigset_t set;
	pthread_t thread;
	struct epoll_event found[4];
	mkdtemp(directory);
	snprintf(path, sizeof path, "%s/file", directory);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);

	event = eventfd(0, EFD_CLOEXEC);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK), sig = signalfd(-1, &set, 0), notify = inotify_init1(0);
	int epoll = epoll_create1(0);
	struct itimerspec every = {{0, 300000}, {0, 300000}};
	timerfd_settime(timer, 0, &every, NULL);
	for (int i = 0; i < 4; i++) {
		int fds[] = {event, timer, sig, notify};
		struct epoll_event want = {EPOLLIN, {.u32 = i}};
		epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &want);
	}
	printf("watch %d\n", inotify_add_watch(notify, directory, IN_CREATE | IN_MODIFY | IN_DELETE));
	pthread_create(&thread, NULL, post, NULL);
	kill(getpid(), SIGUSR1);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	unlink(path);
	for (int rounds = 0; rounds < 30; rounds++) {
		int n = epoll_wait(epoll, found, 4, 5);
		for (int i = 0; i < n; i++) {
			struct signalfd_siginfo info;
			char names[500];
			switch (found[i].data.u32) {
			case 0:
				read(event, &value, sizeof value);
				total += value;
				break;
			case 1:
				if (read(timer, &value, sizeof value) == sizeof value)
					printf("timer %lu\n", value);
				break;
			case 2:
				read(sig, &info, sizeof info);
				printf("signal %u from %u\n", info.ssi_signo, info.ssi_pid);
				break;
			case 3:
				for (ssize_t at = 0, got = read(notify, names, sizeof names); at < got;) {
					struct inotify_event *e = (void *)(names + at);
					printf("inotify %x %s\n", e->mask, e->name);
					at += sizeof *e + e->len;
				}
			}
		}
	}
	timerfd_gettime(timer, &every);
	printf("total %lu, timer %ld\n", total, every.it_value.tv_nsec);
	pthread_join(thread, NULL);
	rmdir(directory);

	int a[2], b[2], c[2];
	char text[64] = "";
	pipe(a);
	pipe2(b, O_CLOEXEC);
	pipe(c);
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	dprintf(a[1], "%ld", now.tv_nsec);
	ssize_t teed = tee(a[0], b[1], 64, 0), spliced = splice(a[0], NULL, c[1], NULL, 64, 0);
	printf("tee %zd splice %zd", teed, spliced);
	read(b[0], text, 20);
	printf(" %s", text);
	read(c[0], text, 20);
	printf(" %s\n", text);

	pid_t pid = fork();
	if (pid == 0)
		_exit(getpid() & 63);
	int pidfd = syscall(SYS_pidfd_open, pid, 0);
	struct pollfd ready = {pidfd, POLLIN, 0};
	poll(&ready, 1, -1);
	siginfo_t info = {0};
	printf("pidfd %d: %x", pidfd, ready.revents);
	printf(" %d", waitid((idtype_t)WAIT_PIDFD, pidfd, &info, WEXITED));
	printf(" %d %d\n", info.si_pid == pid, info.si_status);

	// The same from clone3, which makes the descriptor by itself and tells the parent's number.
	int made = -1, told = -1;
	uint64_t args[11] = {0x1000 | 0x100000, (uintptr_t)&made, 0, (uintptr_t)&told, SIGCHLD}; // CLONE_PIDFD | CLONE_PARENT_SETTID
	pid = syscall(SYS_clone3, args, sizeof args);
	if (pid == 0)
		_exit(9);
	ready.fd = made;
	poll(&ready, 1, -1);
	printf("clone3 %d %d %x %d", made, told == pid, ready.revents, waitid((idtype_t)WAIT_PIDFD, made, &info, WEXITED));
	printf(" %d %d\n", info.si_status, close(made));
	return 0;
}
