// Every way to wait that the C library has, and what may happen to a thread meanwhile: what it waits for is given, its time is up, its
// limit or its clock is none, a handler runs, it is cancelled. For each way one line: what came back, and what has run.
// Natively the same each time. Usage: waits EVENT [WAY...]; the events are below.
#include "waits.h"
#include "waits_locks.h"

#include <aio.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static int ear, child, locked[2];
static struct aiocb request;
static char room[4096];
static FILE *stream;

// ---------------------------------------------------------------- time
static long whole(long ret, int error)
{
	slept = passed() >= duration();
	errno = error;
	return ret;
}

#define SLEEP(call) ({ start(); long sleep_ret = (call); whole(sleep_ret, errno); })

static struct timespec span(void)
{
	long ns = duration();
	return (struct timespec){ns / 1000000000, ns % 1000000000};
}

static long wait_nanosleep(void)
{
	struct timespec time = span(), rest = {0, 0};
	long ret = SLEEP(nanosleep(&time, &rest));
	left = rest.tv_sec || rest.tv_nsec;
	return ret;
}

static long wait_clock_nanosleep(void)
{
	struct timespec time = span();
	return SLEEP(clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL));
}

static long wait_clock_until(void)
{
	struct timespec at;
	clock_gettime(CLOCK_REALTIME, &at);
	at.tv_nsec += duration();
	at.tv_sec += at.tv_nsec / 1000000000;
	at.tv_nsec %= 1000000000;
	return SLEEP(clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &at, NULL));
}

static long wait_usleep(void) { return SLEEP(usleep(duration() / 1000)); }
static long wait_thrd_sleep(void)
{
	struct timespec time = span();
	return SLEEP(thrd_sleep(&time, NULL));
}

static long wait_poll_time(void) { return SLEEP(poll(NULL, 0, duration() / 1000000)); }

static long wait_select_time(void)
{
	struct timeval time = {duration() / 1000000000, duration() / 1000 % 1000000};
	return SLEEP(select(0, NULL, NULL, NULL, &time));
}

// ---------------------------------------------------------------- signals
static void block(int sig)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, sig);
	CHECK(!pthread_sigmask(SIG_BLOCK, &set, NULL));
}

static void begin_blocked(void) { block(SIGUSR2); }

static sigset_t wanted(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return set;
}

static long wait_sigwait(void)
{
	sigset_t set = wanted();
	int sig = 0, ret = sigwait(&set, &sig);
	return ret ? ret : sig;
}

static long wait_sigwaitinfo(void)
{
	sigset_t set = wanted();
	return sigwaitinfo(&set, NULL);
}

static long wait_sigtimedwait(void)
{
	sigset_t set = wanted();
	struct timespec time = span();
	return sigtimedwait(&set, NULL, &time);
}

static long wait_pause(void) { return pause(); }

static long wait_sigsuspend(void)
{
	sigset_t set;
	sigemptyset(&set);
	return sigsuspend(&set);
}

static void give_usr1(void) { pthread_kill(worker, SIGUSR1); }
static void give_usr2(void) { pthread_kill(worker, SIGUSR2); }

// ---------------------------------------------------------------- files
static long wait_pipe(void) { return read(ends[0], &byte, 1); }

static void begin_full(void)
{
	open_pipe();
	CHECK(fcntl(ends[1], F_SETPIPE_SZ, 4096) > 0);
	CHECK(write(ends[1], room, 4096) == 4096);
}

static long wait_full(void) { return write(ends[1], room, 100); }
static void give_full(void) { CHECK(read(ends[0], room, 4096) == 4096); }

static void begin_stream(void)
{
	open_pipe();
	stream = fdopen(dup(ends[0]), "r");
}

static long wait_stream(void) { return fgetc(stream); }

static void end_stream(void)
{
	fclose(stream);
	close_pipe();
}

static struct pollfd ready(void) { return (struct pollfd){.fd = ends[0], .events = POLLIN}; }

static long wait_poll(void)
{
	struct pollfd fd = ready();
	return poll(&fd, 1, -1);
}

static long wait_ppoll(void)
{
	struct pollfd fd = ready();
	sigset_t none;
	sigemptyset(&none);
	return ppoll(&fd, 1, NULL, &none);
}

static long wait_select(void)
{
	fd_set set;
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return select(ends[0] + 1, &set, NULL, NULL, NULL);
}

static long wait_pselect(void)
{
	fd_set set;
	sigset_t none;
	sigemptyset(&none);
	FD_ZERO(&set);
	FD_SET(ends[0], &set);
	return pselect(ends[0] + 1, &set, NULL, NULL, NULL, &none);
}

static void begin_epoll(void)
{
	struct epoll_event event = {.events = EPOLLIN};
	open_pipe();
	ear = epoll_create1(0);
	CHECK(!epoll_ctl(ear, EPOLL_CTL_ADD, ends[0], &event));
}

static long wait_epoll(void)
{
	struct epoll_event event;
	return epoll_wait(ear, &event, 1, -1);
}

static void end_epoll(void)
{
	close(ear);
	close_pipe();
}

static void begin_pair(void) { CHECK(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends)); }
static long wait_recv(void) { return recv(ends[0], &byte, 1, 0); }

static long wait_recvmsg(void)
{
	struct iovec piece = {&byte, 1};
	struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
	return recvmsg(ends[0], &message, 0);
}

static struct sockaddr_un name_of(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "gdbrr-waits-%d", getpid());
	return name;
}

static void begin_accept(void)
{
	struct sockaddr_un name = name_of();
	ear = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(!bind(ear, (struct sockaddr *)&name, sizeof name) && !listen(ear, 1));
	ends[0] = ends[1] = -1;
}

static long wait_accept(void)
{
	ends[0] = accept(ear, NULL, NULL);
	return ends[0] < 0 ? -1 : 0;
}

static void give_accept(void)
{
	struct sockaddr_un name = name_of();
	ends[1] = socket(AF_UNIX, SOCK_STREAM, 0);
	CHECK(!connect(ends[1], (struct sockaddr *)&name, sizeof name));
}

static void begin_flock(void)
{
	char path[] = "/tmp/waits-XXXXXX";
	locked[0] = mkstemp(path);
	locked[1] = open(path, O_RDWR);
	unlink(path);
	CHECK(!flock(locked[0], LOCK_EX));
}

static long wait_flock(void) { return flock(locked[1], LOCK_EX); }
static void give_flock(void) { flock(locked[0], LOCK_UN); }

static long wait_record(void)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	return fcntl(locked[1], F_OFD_SETLKW, &range);
}

static void begin_record(void)
{
	struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	begin_flock();
	CHECK(!fcntl(locked[0], F_OFD_SETLK, &range));
}

static void give_record(void)
{
	struct flock range = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_len = 1};
	fcntl(locked[0], F_OFD_SETLK, &range);
}

static void end_flock(void)
{
	close(locked[0]);
	close(locked[1]);
}

// ---------------------------------------------------------------- children, futexes, requests
static void begin_child(void)
{
	open_pipe();
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		close(ends[1]);
		_exit(read(ends[0], &byte, 1) == 1 ? 7 : 8);
	}
}

static long wait_child(void)
{
	int status = 0, ret = waitpid(child, &status, 0);
	return ret < 0 ? ret : WEXITSTATUS(status);
}

static void end_child(void)
{
	int status;
	post();
	waitpid(child, &status, 0); // perhaps it was
	close_pipe();
}

static void begin_word(void) { word = 0; }
static long wait_word(void) { return syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL); }

static long wait_word_timed(void)
{
	struct timespec time = span();
	return syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time);
}

static void give_word(void)
{
	word = 1;
	syscall(SYS_futex, &word, FUTEX_WAKE, 1);
}

static void begin_request(void)
{
	open_pipe();
	request = (struct aiocb){.aio_fildes = ends[0], .aio_buf = &byte, .aio_nbytes = 1, .aio_lio_opcode = LIO_READ};
	request.aio_sigevent.sigev_notify = SIGEV_NONE;
	CHECK(!aio_read(&request));
}

static long wait_request(void)
{
	const struct aiocb *const list[] = {&request};
	return aio_suspend(list, 1, NULL);
}

static long wait_request_timed(void)
{
	const struct aiocb *const list[] = {&request};
	struct timespec time = span();
	return aio_suspend(list, 1, &time);
}

static void begin_list(void)
{
	open_pipe();
	request = (struct aiocb){.aio_fildes = ends[0], .aio_buf = &byte, .aio_nbytes = 1, .aio_lio_opcode = LIO_READ};
	request.aio_sigevent.sigev_notify = SIGEV_NONE;
}

static long wait_list(void)
{
	struct aiocb *list[] = {&request};
	return lio_listio(LIO_WAIT, list, 1, NULL);
}

static void end_request(void)
{
	if (aio_error(&request) == EINPROGRESS)
		post();
	while (aio_error(&request) == EINPROGRESS)
		usleep(1000);
	close_pipe();
}

// ---------------------------------------------------------------- the table
const struct way ways[] = {
	{"mutex", begin_normal, wait_mutex, give_mutex, none, 0},
	{"mutex_recursive", begin_recursive, wait_mutex, give_mutex, none, 0},
	{"mutex_errorcheck", begin_errorcheck, wait_mutex, give_mutex, none, 0},
	{"mutex_adaptive", begin_adaptive, wait_mutex, give_mutex, none, 0},
	{"mutex_robust", begin_robust, wait_mutex, give_mutex, none, 0},
	{"mutex_inherits", begin_inherits, wait_mutex, give_mutex, none, 0},
	{"mutex_timedlock", begin_normal, wait_mutex_timed, give_mutex, none, LIMITED | FREE},
	{"mutex_clocklock", begin_normal, wait_mutex_clock, give_mutex, none, LIMITED | FREE | CLOCKED},
	{"recursive_timedlock", begin_recursive, wait_mutex_timed, give_mutex, none, LIMITED | FREE},
	{"robust_clocklock", begin_robust, wait_mutex_clock, give_mutex, none, LIMITED | FREE | CLOCKED},
	{"inherits_timedlock", begin_inherits, wait_mutex_timed, give_mutex, none, LIMITED | FREE},
	{"inherits_clocklock", begin_inherits, wait_mutex_clock, give_mutex, none, LIMITED | FREE | CLOCKED},
	{"inherits_realtime", begin_inherits, wait_mutex_real, give_mutex, none, LIMITED | FREE | CLOCKED},
	{"mtx_lock", begin_mtx, wait_mtx, give_mtx, none, 0},
	{"mtx_timedlock", begin_mtx, wait_mtx_timed, give_mtx, none, LIMITED | FREE},
	{"cond_wait", begin_cond, wait_cond, give_cond, none, POINT},
	{"cond_timedwait", begin_cond, wait_cond_timed, give_cond, none, POINT | LIMITED},
	{"cond_clockwait", begin_cond, wait_cond_clock, give_cond, none, POINT | LIMITED | CLOCKED},
	{"cnd_wait", begin_cnd, wait_cnd, give_cnd, none, POINT},
	{"cnd_timedwait", begin_cnd, wait_cnd_timed, give_cnd, none, POINT | LIMITED},
	{"rdlock", begin_read, wait_read, give_rwlock, none, 0},
	{"timedrdlock", begin_read, wait_read_timed, give_rwlock, none, LIMITED | FREE},
	{"clockrdlock", begin_read, wait_read_clock, give_rwlock, none, LIMITED | FREE | CLOCKED},
	{"wrlock", begin_write, wait_write, give_rwlock, none, 0},
	{"timedwrlock", begin_write, wait_write_timed, give_rwlock, none, LIMITED | FREE},
	{"clockwrlock", begin_write, wait_write_clock, give_rwlock, none, LIMITED | FREE | CLOCKED},
	{"spin_lock", begin_spin, wait_spin, give_spin, none, SPINS},
	{"barrier_wait", begin_barrier, wait_barrier, give_barrier, none, 0},
	{"once", begin_once, wait_once, post, end_once, 0},
	{"call_once", begin_once, wait_call_once, post, end_once, 0},
	{"sem_wait", begin_sem, wait_sem, give_sem, none, POINT},
	{"sem_timedwait", begin_sem, wait_sem_timed, give_sem, none, POINT | LIMITED | FREE},
	{"sem_clockwait", begin_sem, wait_sem_clock, give_sem, none, POINT | LIMITED | FREE | CLOCKED},
	{"join", begin_join, wait_join, post, end_join, POINT },
	{"timedjoin", begin_join, wait_join_timed, post, end_join, POINT | LIMITED | FRAIL },
	{"clockjoin", begin_join, wait_join_clock, post, end_join, POINT | LIMITED | FRAIL | CLOCKED },
	{"thrd_join", begin_join_c11, wait_join_c11, post, end_join_c11, POINT },
	{"nanosleep", none, wait_nanosleep, none, none, POINT | SLEEPS},
	{"clock_nanosleep", none, wait_clock_nanosleep, none, none, POINT | SLEEPS},
	{"clock_until", none, wait_clock_until, none, none, POINT | SLEEPS},
	{"usleep", none, wait_usleep, none, none, POINT | SLEEPS},
	{"thrd_sleep", none, wait_thrd_sleep, none, none, POINT | SLEEPS},
	{"poll_time", none, wait_poll_time, none, none, POINT | SLEEPS},
	{"select_time", none, wait_select_time, none, none, POINT | SLEEPS},
	{"sigwait", begin_blocked, wait_sigwait, give_usr2, none, POINT},
	{"sigwaitinfo", begin_blocked, wait_sigwaitinfo, give_usr2, none, POINT},
	{"sigtimedwait", begin_blocked, wait_sigtimedwait, give_usr2, none, POINT | LASTS},
	{"pause", none, wait_pause, give_usr1, none, POINT},
	{"sigsuspend", none, wait_sigsuspend, give_usr1, none, POINT},
	{"read", open_pipe, wait_pipe, post, close_pipe, POINT},
	{"write", begin_full, wait_full, give_full, close_pipe, POINT},
	{"fgetc", begin_stream, wait_stream, post, end_stream, POINT},
	{"poll", open_pipe, wait_poll, post, close_pipe, POINT},
	{"ppoll", open_pipe, wait_ppoll, post, close_pipe, POINT},
	{"select", open_pipe, wait_select, post, close_pipe, POINT},
	{"pselect", open_pipe, wait_pselect, post, close_pipe, POINT},
	{"epoll", begin_epoll, wait_epoll, post, end_epoll, POINT},
	{"recv", begin_pair, wait_recv, post, close_pipe, POINT},
	{"recvmsg", begin_pair, wait_recvmsg, post, close_pipe, POINT},
	{"accept", begin_accept, wait_accept, give_accept, end_epoll, POINT},
	{"flock", begin_flock, wait_flock, give_flock, end_flock, 0},
	{"fcntl", begin_record, wait_record, give_record, end_flock, POINT},
	{"waitpid", begin_child, wait_child, post, end_child, POINT},
	{"futex", begin_word, wait_word, give_word, none, 0},
	{"futex_timed", begin_word, wait_word_timed, give_word, none, LASTS},
	{"aio_suspend", begin_request, wait_request, post, end_request, POINT},
	{"aio_suspend_timed", begin_request, wait_request_timed, post, end_request, POINT | LASTS},
	{"lio_listio", begin_list, wait_list, post, end_request, FRAIL},
	{NULL, NULL, NULL, NULL, NULL, 0},
};
