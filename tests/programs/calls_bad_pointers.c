// Memory that is not there, or that cannot be written, in every kind of argument; errors come back as from the kernel.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *none; // unmapped
static char *edge; // the last bytes of a page with nothing behind it
static const struct timespec constant = {0, 1000000};
static const struct timespec longer = {5, 0};

static void say(const char *what, long ret)
{
	printf("%s %ld %d\n", what, ret, ret < 0 ? errno : 0);
	errno = 0;
}
#define TRY(call) say(#call, (long)(call))

static void *idle(void *unused)
{
	pause();
	return unused;
}

static void all(void)
{
	int two[2], fd = open("/etc/passwd", O_RDONLY);
	struct stat st;
	struct timespec now;
	if (pipe(two) || socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0}) < -1)
		return;
	TRY(syscall(SYS_read, fd, none, 10));
	TRY(syscall(SYS_read, fd, edge, 4096));
	TRY(syscall(SYS_read, fd, NULL, 10));
	TRY(syscall(SYS_readv, fd, none, 2));
	TRY(syscall(SYS_readv, fd, (struct iovec[2]){{edge - 8, 4}, {none, 4}}, 2));
	TRY(syscall(SYS_write, two[1], none, 10));
	TRY(syscall(SYS_write, two[1], "0123456789", 10));
	TRY(syscall(SYS_read, two[0], none, 5));
	TRY(syscall(SYS_read, two[0], edge, 8));
	TRY(syscall(SYS_open, none, O_RDONLY));
	TRY(syscall(SYS_open, NULL, O_RDONLY));
	TRY(syscall(SYS_stat, "/", none));
	TRY(syscall(SYS_stat, none, &st));
	TRY(syscall(SYS_fstat, fd, edge));
	TRY(syscall(SYS_pipe, none));
	TRY(syscall(SYS_pipe2, none, 0));
	TRY(syscall(SYS_poll, none, 1, 0));
	TRY(syscall(SYS_poll, NULL, 0, 0));
	TRY(syscall(SYS_ppoll, NULL, 0, &constant, NULL, 8));
	TRY(syscall(SYS_ppoll, &(struct pollfd){two[0], POLLIN, 0}, 1, &longer, NULL, 8));
	TRY(syscall(SYS_select, 1, none, NULL, NULL, NULL));
	TRY(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &constant, NULL));
	TRY(syscall(SYS_epoll_wait, epoll_create1(0), none, 1, 0));
	TRY(syscall(SYS_clock_gettime, CLOCK_REALTIME, none) == 0);
	TRY(syscall(SYS_clock_gettime, 12345, &now));
	TRY(syscall(SYS_nanosleep, none, NULL));
	TRY(syscall(SYS_nanosleep, &constant, none));
	TRY(syscall(SYS_recvmsg, two[0], none, 0));
	TRY(syscall(SYS_recvfrom, fd, none, 10, 0, none, none));
	TRY(syscall(SYS_getsockname, two[0], none, none));
	TRY(syscall(SYS_wait4, -1, none, 0, none));
	TRY(syscall(SYS_getcwd, none, 100));
	TRY(syscall(SYS_getcwd, edge, 100));
	TRY(syscall(SYS_readlink, "/proc/self/exe", none, 10));
	TRY(syscall(SYS_getdents64, open("/", O_RDONLY | O_DIRECTORY), none, 4096));
	TRY(syscall(SYS_getrandom, none, 16, 0));
	TRY(syscall(SYS_sched_getaffinity, 0, 4096, edge) < 0);
	TRY(syscall(SYS_sched_getattr, 0, edge - 40, 200, 0));
	TRY(syscall(SYS_rt_sigpending, none, 8));
	TRY(syscall(SYS_ioctl, fd, 0x541b, none)); // FIONREAD
	TRY(syscall(SYS_sendfile, two[1], fd, none, 1));
	TRY(syscall(SYS_close, 12345));
	TRY(syscall(SYS_close, -1));
	TRY(syscall(SYS_dup2, 12345, 3));
	TRY(syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, 12345, 0));
	TRY(syscall(SYS_munmap, 1, 4096));
	TRY(syscall(SYS_openat, 12345, "relative", O_RDONLY));
	TRY(syscall(SYS_fcntl, fd, F_GETLK, none));
	TRY(syscall(SYS_clone3, none, 88));
	TRY(syscall(SYS_futex, none, 0, 0, NULL, NULL, 0));
	TRY(syscall(SYS_getitimer, 0, none));
	TRY(syscall(SYS_statx, AT_FDCWD, "/", 0, 0, none));
	TRY(syscall(SYS_msync, none, 4096, 0));
	close(fd);
}

int main(void)
{
	pthread_t thread;
	char *two = mmap(NULL, 2 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	none = two + 4096;
	edge = none - 4;
	munmap(none, 4096);
	all(); // alone
	pthread_create(&thread, NULL, idle, NULL);
	all(); // with another thread
	return 0;
}
