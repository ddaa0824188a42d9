// Every system call of every_call.h, with each pointer in turn also NULL, wild, and to memory of which only a part is there, and each
// descriptor and short number with something above it; for each its result and a hash of the memory around what it was given. What is another one in each run stands behind "~".
// usage: every_call DIRECTORY [threaded]
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

// Numbers are the engine's own, because older headers lack some; tests/unit/test_table_c.py proves them. Everything else comes from headers.
#define SYS(nr, name, ...) enum { NR_##name = nr };
#define IOCTL(name, request, ...) enum { REQUEST_##name = request };
#include "../../preload/tables/syscalls.def"
#include "../../preload/tables/ioctls.def"
#undef SYS
// Requests of no table:
#define REQUEST_SIOCGSTAMP_NEW 0x80108906
#define REQUEST_EPIOCGPARAMS 0x80088a02
#define REQUEST_FS_IOC_GETFSUUID 0x80111500
#define REQUEST_PIDFD_GET_INFO 0xc040ff0b
#define REQUEST_PIDFD_GET_IPC_NAMESPACE 0xff02
#define REQUEST_NS_GET_MNTNS_ID 0x8008b705
#define REQUEST_SIOCGIFENCAP 0x8925

enum { RESULT = 1, MEMORY = 2, ONCE = 4, TIMED = 8 };
enum { PAGE = 4096, PAGES = 3, REGIONS = 16, KEPT_FIRST = 240, READY = 250 };

enum kind {
	NUMBER, INTEGER, BUFFER, WORDS, VECTORS, HEADER, HEADERS, STRUCTURE, QUERY, CHILDREN, CHILD_RUNS, TIMERS,
	FILES, OTHERS, DIRS, RPIPES, WPIPES, NULLS, DGRAMS, STREAMS, LISTENS, UDPS, EPOLLS, TIMERFDS, INOTIFIES, MAILS, PIDS, TTYS, PTYS,
	RANDOMS, TCPS, SPACES, MOUNTS, PAGEMAPS, MAPLISTS,
};

struct arg { enum kind kind; long value; size_t size, at, length_at; const char *bytes; size_t given; };

#define Z16 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define Z_16 Z16 "\0"
#define NO_TIME Z16
#define BAD_TIME "\0\0\0\0\0\0\0\0\377\377\377\377\377\377\377"
#define ONE_SECOND "\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
#define NO_TIMES Z_16 Z16
#define NO_EVENT Z_16 Z_16 Z_16 Z16
#define SIGINFO Z_16 Z_16 Z_16 Z_16 Z_16 Z_16 Z_16 Z16
#define BIT_250 Z_16 "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\4"
#define POLLS "\372\0\0\0\1\0\0\0\347\3\0\0\1\0\0"
#define NOBODY "\2\0\0\11\177\0\0\1\0\0\0\0\0\0\0"
#define CAPABILITIES_1 "\x30\x03\x98\x19\0\0\0"
#define CAPABILITIES_3 "\x22\x05\x08\x20\0\0\0"
#define EXTENTS_3 "\0\0\0\0\0\0\0\0\0\20\0\0\0\0\0\0\0\0\0\0\0\0\0\0\3\0\0"
#define DUPLICATES_1 "\0\0\0\0\0\0\0\0\5\0\0\0\0\0\0\0\1\0\0"
#define INTERFACE_1 Z_16 "\1"

#define INT(n) ((struct arg){INTEGER, n, 0, 0, 0, NULL, 0}) // of which the kernel looks at the lower half
#define IN(...) ((struct arg){BUFFER, 0, sizeof(__VA_ARGS__), 0, 0, "" __VA_ARGS__, sizeof(__VA_ARGS__)})
#define OUT(n) ((struct arg){BUFFER, 0, n, 0, 0, NULL, 0})
#define INOUT(n, ...) ((struct arg){BUFFER, 0, n, 0, 0, "" __VA_ARGS__, sizeof(__VA_ARGS__)})
#define TEXT(text) ((struct arg){WORDS, 0, sizeof(text), 0, 0, text, sizeof(text)})
#define VECTOR(a, b) ((struct arg){VECTORS, 0, 2 * sizeof(struct iovec), a, b, NULL, 0})
#define MESSAGE(n) ((struct arg){HEADER, 0, sizeof(struct msghdr), n, 0, NULL, 0})
#define MESSAGES(n) ((struct arg){HEADERS, 0, 2 * sizeof(struct mmsghdr), n, 0, NULL, 0})
// A structure with a pointer to `room` bytes, and how many they are.
#define LEADS_TO(n, pointer, length, room) ((struct arg){STRUCTURE, room, n, pointer, length, NULL, 0})
#define MAPPING ((struct arg){QUERY, 100, 104, 88, 80, NULL, 0})
#define OF_KIND(kind) ((struct arg){kind, 0, 0, 0, 0, NULL, 0})
#define CHILD OF_KIND(CHILDREN)
#define RUNNING OF_KIND(CHILD_RUNS)
#define TIMER OF_KIND(TIMERS)
#define D_FILE OF_KIND(FILES)
#define D_OTHER OF_KIND(OTHERS)
#define D_DIR OF_KIND(DIRS)
#define D_RPIPE OF_KIND(RPIPES)
#define D_WPIPE OF_KIND(WPIPES)
#define D_NULL OF_KIND(NULLS)
#define D_DGRAM OF_KIND(DGRAMS)
#define D_STREAM OF_KIND(STREAMS)
#define D_LISTEN OF_KIND(LISTENS)
#define D_UDP OF_KIND(UDPS)
#define D_TCP OF_KIND(TCPS)
#define D_EPOLL OF_KIND(EPOLLS)
#define D_TIMER OF_KIND(TIMERFDS)
#define D_INOTIFY OF_KIND(INOTIFIES)
#define D_MESSAGES OF_KIND(MAILS)
#define D_PID OF_KIND(PIDS)
#define D_TTY OF_KIND(TTYS)
#define D_PTY OF_KIND(PTYS)
#define D_RANDOM OF_KIND(RANDOMS)
#define D_NAMESPACE OF_KIND(SPACES)
#define D_MOUNTS OF_KIND(MOUNTS)
#define D_PAGES OF_KIND(PAGEMAPS)
#define D_MAPS OF_KIND(MAPLISTS)
#define PID getpid()
#define TID gettid()
#define UID getuid()
#define GID getgid()
#define PLACE ((long)place)
#define DEVICE device

// At places that are the same in each run, because the memory that is compared has pointers in it.
static char *const place = (char *)0x100000000000, *const regions = (char *)0x101000000000;
enum { PLACE_SIZE = 4 * PAGE };
static unsigned used; // regions
static long device;
static pid_t runs;

static void must(int condition, int line)
{
	if (!condition) {
		printf("line %d: ", line);
		perror("failed");
		exit(1);
	}
}
#define MUST(what) must(!!(what), __LINE__)

// ---------------------------------------------------------------- memory
static char *end_of(unsigned region)
{
	return regions + (region * (PAGES + 1) + PAGES) * PAGE;
}

static void fill(void)
{
	for (unsigned r = 0; r < REGIONS; r++)
		for (int i = 1; i <= PAGES * PAGE; i++)
			end_of(r)[-i] = (char)(i * 7 + r * 31);
	used = 0;
}

static uint32_t memory(void)
{
	uint32_t hash = 1;
	for (unsigned r = 0; r < used; r++)
		for (int i = 1; i <= PAGES * PAGE; i++)
			hash = (hash ^ (unsigned char)end_of(r)[-i]) * 16777619;
	return hash;
}

static char *take(size_t size)
{
	MUST(used < REGIONS && size <= PAGES * PAGE);
	return end_of(used++) - size;
}

static struct iovec part(size_t size)
{
	return (struct iovec){take(size), size};
}

static void make_header(struct msghdr *msg, size_t size, int receives)
{
	struct iovec *iov = (struct iovec *)take(sizeof *iov);
	*msg = (struct msghdr){.msg_iov = iov, .msg_iovlen = 1};
	*iov = part(size);
	if (receives) {
		msg->msg_name = take(msg->msg_namelen = 24);
		msg->msg_control = take(msg->msg_controllen = 40);
	}
}

static long make_memory(const struct arg *arg, long nr)
{
	char *p = take(arg->size);
	int receives = nr == SYS_recvmsg || nr == SYS_recvmmsg;
	if (arg->bytes) {
		memset(p, 0, arg->size);
		memcpy(p, arg->bytes, arg->given < arg->size ? arg->given : arg->size);
	}
	if (arg->kind == VECTORS) {
		((struct iovec *)p)[0] = part(arg->at);
		((struct iovec *)p)[1] = part(arg->length_at);
	} else if (arg->kind == HEADER) {
		make_header((struct msghdr *)p, arg->at, receives);
	} else if (arg->kind == HEADERS) {
		for (int i = 0; i < 2; i++)
			make_header(&((struct mmsghdr *)p)[i].msg_hdr, arg->at, receives);
	} else if (arg->kind == STRUCTURE || arg->kind == QUERY) {
		char *behind = take(arg->value * (arg->at == 40 ? 24 : 1));
		memset(p, 0, arg->size);
		memcpy(p + arg->at, &behind, sizeof behind);
		memcpy(p + arg->length_at, &(int){arg->value}, sizeof(int));
		if (arg->at == 40) { // struct pm_scan_arg
			memcpy(p, &(long){arg->size}, 8);
			memcpy(p + 16, (long[]){(long)place, (long)place + PLACE_SIZE}, 16);
			memcpy(p + 80, (long[]){8, 8}, 16); // any that is there
		} else if (arg->at == 16 && arg->size == 40) { // struct ifreq
			memcpy(p, "lo", 3);
			memset(behind, 0, 200);
			memcpy(behind, &(int){3}, 4); // ETHTOOL_GDRVINFO
		} else if (arg->kind == QUERY) {
			memcpy(p, (long[]){arg->size, 0, (long)place}, 24);
		}
	}
	return (long)p;
}

// ---------------------------------------------------------------- descriptors
static int in_pair(int type)
{
	int pair[2];
	MUST(socketpair(AF_UNIX, type, 0, pair) == 0);
	MUST(write(pair[1], "first", 5) == 5);
	if (type == SOCK_DGRAM)
		MUST(write(pair[1], "2nd", 3) == 3);
	return pair[0];
}

static int make_pipe(int end)
{
	int fds[2];
	MUST(pipe(fds) == 0 && write(fds[1], "in a pipe", 9) == 9);
	return fds[end];
}

static int make_listener(void)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), other = socket(AF_UNIX, SOCK_STREAM, 0);
	int length = offsetof(struct sockaddr_un, sun_path) + 1 + snprintf(name.sun_path + 1, 50, "every-call-%d", getpid());
	MUST(bind(fd, (struct sockaddr *)&name, length) == 0 && listen(fd, 1) == 0);
	MUST(connect(other, (struct sockaddr *)&name, length) == 0);
	return fd;
}

static int make_epoll(void)
{
	struct epoll_event event = {EPOLLIN, {.u64 = 0x123456789abcdef}};
	int fd = epoll_create1(0);
	MUST(fd >= 0 && epoll_ctl(fd, EPOLL_CTL_ADD, READY, &event) == 0);
	return fd;
}

static int make_mail(void)
{
	struct { long flags, most, size, now, rest[4]; } attr = {.most = 2, .size = 16};
	char name[40];
	snprintf(name, sizeof name, "every-call-%d", getpid());
	int fd = syscall(SYS_mq_open, name, O_RDWR | O_CREAT, 0600, &attr);
	if (fd < 0)
		return 999; // a machine without them
	syscall(SYS_mq_unlink, name);
	MUST(syscall(SYS_mq_timedsend, fd, "a letter", 8, 5, NULL) == 0);
	return fd;
}

static int make_terminal(int slave)
{
	int fd = open("/dev/ptmx", O_RDWR | O_NOCTTY);
	MUST(fd >= 0 && ioctl(fd, TIOCSPTLCK, &(int){0}) == 0);
	return slave ? ioctl(fd, TIOCGPTPEER, O_RDWR | O_NOCTTY) : fd;
}

static int make_child(void)
{
	pid_t pid = fork();
	if (pid == 0)
		_exit(7);
	return pid;
}

static long make_running(void)
{
	if (!runs && (runs = fork()) == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
	}
	return runs;
}

static long make_timer(void)
{
	int id = 0;
	struct sigevent event = {.sigev_notify = SIGEV_NONE};
	MUST(syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &id) == 0);
	return id;
}

static long value_of(const struct arg *arg, long nr)
{
	switch (arg->kind) {
	case NUMBER:
	case INTEGER: return arg->value;
	case CHILDREN: return make_child();
	case CHILD_RUNS: return make_running();
	case TIMERS: return make_timer();
	case FILES: return open("file", O_RDWR);
	case OTHERS: return open("second", O_RDWR);
	case DIRS: return open("directory", O_RDONLY);
	case RPIPES: return make_pipe(0);
	case WPIPES: return make_pipe(1);
	case NULLS: return open("/dev/null", O_RDWR);
	case DGRAMS: return in_pair(SOCK_DGRAM);
	case STREAMS: return in_pair(SOCK_STREAM);
	case LISTENS: return make_listener();
	case UDPS: return socket(AF_INET, SOCK_DGRAM, 0);
	case TCPS: return socket(AF_INET, SOCK_STREAM, 0);
	case EPOLLS: return make_epoll();
	case TIMERFDS: return timerfd_create(CLOCK_MONOTONIC, 0);
	case INOTIFIES: return inotify_init();
	case MAILS: return make_mail();
	case PIDS: return syscall(SYS_pidfd_open, getpid(), 0);
	case TTYS: return make_terminal(1);
	case PTYS: return make_terminal(0);
	case RANDOMS: return open("/dev/urandom", O_RDONLY);
	case SPACES: return open("/proc/self/ns/pid", O_RDONLY);
	case MOUNTS: return open("/proc/self/ns/mnt", O_RDONLY);
	case PAGEMAPS: return open("/proc/self/pagemap", O_RDONLY);
	case MAPLISTS: return open("/proc/self/maps", O_RDONLY);
	default: return make_memory(arg, nr);
	}
}

// ---------------------------------------------------------------- one call
static struct arg number(long value)
{
	return (struct arg){.kind = NUMBER, .value = value};
}

static struct arg same(struct arg arg)
{
	return arg;
}

static int is_memory(const struct arg *arg)
{
	return arg->kind >= BUFFER && arg->kind <= QUERY;
}

static int is_int(const struct arg *arg)
{
	return arg->kind == INTEGER || arg->kind >= FILES;
}

// `which` of the arguments is a bad pointer: NULL, wild, or to half of what it should be; or a number with something above it.
static void once(const char *name, long nr, int how, const struct arg *args, int count, int which, int bad)
{
	long a[6] = {0}, result;
	fill();
	for (int i = 0; i < count; i++) {
		a[i] = value_of(&args[i], nr);
		if (i == which)
			a[i] = bad == 1 ? 0 : bad == 2 ? (long)end_of(used - 1) : bad == 3 ? a[i] + (long)(args[i].size + 1) / 2 :
			       a[i] + 0x5a5a00000000;
	}
	errno = 0;
	result = syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]);
	const char *error = result == -1 ? strerrorname_np(errno) : "";
	uint32_t hash = memory();
	printf("%s", name);
	if (which >= 0)
		printf(" [%d %s]", which + 1, (const char *[]){"", "NULL", "wild", "half", "more"}[bad]);
	printf(":");
	if (!(how & RESULT))
		printf(" %ld %s", result, error ? error : "?");
	if (!(how & MEMORY))
		printf(" %08x", hash);
	printf(" ~ %ld %s %08x\n", result, error ? error : "?", hash);
	close_range(3, KEPT_FIRST - 1, 0);
}

static void every_way(const char *name, long nr, int how, const struct arg *args, int count)
{
	once(name, nr, how, args, count, -1, 0);
	for (int i = 0; i < count && !(how & ONCE); i++)
		for (int bad = how & TIMED ? 2 : 1; bad <= 3 && is_memory(&args[i]); bad++)
			once(name, nr, how, args, count, i, bad);
	for (int i = 0; i < count && !(how & ONCE); i++)
		if (is_int(&args[i]))
			once(name, nr, how, args, count, i, 4);
}

#define ARG(x) _Generic((x), struct arg: same, default: number)(x)
#define ARGS_0()
#define ARGS_1(a) ARG(a)
#define ARGS_2(a, ...) ARG(a), ARGS_1(__VA_ARGS__)
#define ARGS_3(a, ...) ARG(a), ARGS_2(__VA_ARGS__)
#define ARGS_4(a, ...) ARG(a), ARGS_3(__VA_ARGS__)
#define ARGS_5(a, ...) ARG(a), ARGS_4(__VA_ARGS__)
#define ARGS_6(a, ...) ARG(a), ARGS_5(__VA_ARGS__)
#define PICK(z, a, b, c, d, e, f, n, ...) n
#define COUNT(...) PICK(0, ##__VA_ARGS__, 6, 5, 4, 3, 2, 1, 0)
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

// Nobody sees too early what a call stores: with a second thread there, the engine makes it on buffers of its own.
static void *waits(void *unused)
{
	pause();
	return unused;
}

int main(int argc, char **argv)
{
	struct stat st;
	pthread_t thread;
	MUST(argc > 1 && chdir(argv[1]) == 0 && mkdir("directory", 0700) == 0);
	int fd = open("file", O_RDWR | O_CREAT, 0600), second = open("second", O_RDWR | O_CREAT, 0600);
	for (int i = 0; i < 200; i++)
		MUST(write(fd, &(char){i}, 1) == 1);
	MUST(write(second, "second file", 11) == 11 && fstat(fd, &st) == 0);
	device = st.st_dev;
	MUST(dup2(eventfd(1, 0), READY) == READY);
	close_range(3, KEPT_FIRST - 1, 0);
	signal(SIGPIPE, SIG_IGN);
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
	MUST(mmap(place, PLACE_SIZE, PROT_READ | PROT_WRITE, flags, -1, 0) == place);
	MUST(mmap(regions, REGIONS * (PAGES + 1) * PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == regions);
	for (unsigned r = 0; r < REGIONS; r++)
		munmap(end_of(r), PAGE);
	if (argc > 2)
		MUST(pthread_create(&thread, NULL, waits, NULL) == 0);
	setvbuf(stdout, NULL, _IOLBF, BUFSIZ);

#define CALL(name, how, ...) \
	every_way(#name, NR_##name, how, (struct arg[7]){JOIN(ARGS_, COUNT(__VA_ARGS__))(__VA_ARGS__)}, \
		  COUNT(__VA_ARGS__));
#define SKIP(name, why)
#define REQUEST(name, how, on, with) \
	every_way(#name, SYS_ioctl, how, (struct arg[3]){ARG(on), INT(REQUEST_##name), ARG(with)}, 3);
#include "every_call.h"
	if (runs)
		kill(runs, SIGKILL);
	return 0;
}
