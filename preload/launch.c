// gdbrr-launch: starts a program so that its address space is the same in every run, before its first instruction.
// Runs in: a process of its own between the controller and the program; gone once the program runs.
// May call: libc. Never a shell.
// Owns: descriptors GR_FD_CTL and GR_FD_DATA of the program, its personality, its AT_RANDOM bytes, slot 0's pid.
//
// The program is made with CLONE_PARENT, so it is a child of the controller: exit status, job control and the
// death signal are as if the controller had started it. This process only traces it up to its exec. It exits with
// 0, or leaves the reason in the panic of slot 0 ("what is wrong\nthe way out") and exits like a shell.

#define _GNU_SOURCE
#include "abi.h"
#include "carried.h"
#include "fence.h"
#include "libraries.h"
#include "random.h"
#include "tracer.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { EXIT_REFUSED = 1, EXIT_USAGE = 2, EXIT_BUSY = 75, EXIT_NOT_EXECUTABLE = 126, EXIT_NOT_FOUND = 127 };

struct options {
	const char *ctl, *data, *env_file, *exe, *cwd, *stack_limit, *ignored, *blocked, *carried, *log;
	uint8_t random[16];
	int64_t cache_pages; // of the loader's cache, as the demo has it; else -1
	bool has_random, stop, die_with_parent, session, no_terminal, no_core;
	char **argv;
};

static struct gr_ctl *ctl;
static pid_t child;
static uint64_t own_mask; // signals that the program starts with blocked

static _Noreturn void refuse(int status, const char *hint, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void refuse(int status, const char *hint, const char *format, ...)
{
	char text[GR_PANIC_TEXT];
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	size_t len = strlen(text);
	snprintf(text + len, sizeof text - len, "\n%s", hint);
	if (child > 0)
		kill(child, SIGKILL);
	if (ctl) {
		struct gr_panic *panic = &ctl->slot[0].panic;
		memcpy(panic->text, text, sizeof text);
		panic->code = GR_PANIC_REFUSED;
		panic->set = 1;
	} else {
		fprintf(stderr, "gdbrr-launch: %s\n", text);
	}
	_exit(status);
}

static _Noreturn void usage(const char *what)
{
	refuse(EXIT_USAGE,
		"usage: gdbrr-launch --ctl FILE --data FILE --env-file FILE [--exe FILE] [--random HEX32] [--cwd DIR]\n"
		"                    [--ignored HEX] [--blocked HEX] [--stack-limit BYTES|unlimited] [--stop] [--session|--no-terminal] [--die-with-parent] [--no-core]\n"
		"                    [--carried FILE|--log FILE|--cache-pages N]\n"
		"                    -- PROGRAM [ARG...]",
		"%s", what);
}

static void hex_parse(const char *text, uint8_t *ret)
{
	if (strlen(text) != 32 || strspn(text, "0123456789abcdef") != 32)
		usage("--random wants 32 lower-case hexadecimal digits");
	for (int i = 0; i < 16; i++) {
		char byte[3] = {text[2 * i], text[2 * i + 1], 0};
		ret[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
}

static void options_parse(int argc, char **argv, struct options *ret)
{
	*ret = (struct options){.cache_pages = -1};
	int i = 1;
	for (; i < argc && strcmp(argv[i], "--") != 0; i++) {
		const char *name = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
		if (!strcmp(name, "--stop")) {
			ret->stop = true;
			continue;
		}
		if (!strcmp(name, "--session")) {
			ret->session = true;
			continue;
		}
		if (!strcmp(name, "--no-terminal")) {
			ret->no_terminal = true;
			continue;
		}
		if (!strcmp(name, "--no-core")) {
			ret->no_core = true;
			continue;
		}
		if (!strcmp(name, "--die-with-parent")) {
			ret->die_with_parent = true;
			continue;
		}
		if (!value || !strcmp(value, "--"))
			usage("an option is unknown or lacks its value");
		i++;
		if (!strcmp(name, "--ctl"))
			ret->ctl = value;
		else if (!strcmp(name, "--data"))
			ret->data = value;
		else if (!strcmp(name, "--env-file"))
			ret->env_file = value;
		else if (!strcmp(name, "--exe"))
			ret->exe = value;
		else if (!strcmp(name, "--cwd"))
			ret->cwd = value;
		else if (!strcmp(name, "--stack-limit"))
			ret->stack_limit = value;
		else if (!strcmp(name, "--ignored"))
			ret->ignored = value;
		else if (!strcmp(name, "--blocked"))
			ret->blocked = value;
		else if (!strcmp(name, "--carried"))
			ret->carried = value;
		else if (!strcmp(name, "--log"))
			ret->log = value;
		else if (!strcmp(name, "--cache-pages"))
			ret->cache_pages = (uint32_t)strtoul(value, NULL, 10);
		else if (!strcmp(name, "--random"))
			hex_parse(value, ret->random), ret->has_random = true;
		else
			usage("an option is unknown");
	}
	if (i + 1 >= argc || !ret->ctl || !ret->data || !ret->env_file)
		usage("--ctl, --data, --env-file and -- PROGRAM are needed");
	ret->argv = argv + i + 1;
	if (!ret->exe)
		ret->exe = ret->argv[0];
}

static char *file_read(const char *path, size_t *ret_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		refuse(EXIT_REFUSED, "this is a fault of gdbrr", "cannot open %s: %s", path, strerror(errno));
	size_t len = 0, room = 1 << 16;
	char *text = malloc(room + 1);
	for (;;) {
		ssize_t got = text ? read(fd, text + len, room - len) : -1;
		if (got < 0)
			refuse(EXIT_REFUSED, "this is a fault of gdbrr", "cannot read %s: %s", path, strerror(errno));
		if (got == 0)
			break;
		len += (size_t)got;
		if (len == room)
			text = realloc(text, (room *= 2) + 1);
	}
	close(fd);
	text[len] = 0;
	*ret_len = len;
	return text;
}

static char **env_read(const char *path)
{
	size_t len, count = 0;
	char *text = file_read(path, &len);
	for (size_t i = 0; i < len; i++)
		count += text[i] == 0;
	char **env = calloc(count + 1, sizeof *env);
	if (!env)
		refuse(EXIT_REFUSED, "free some memory", "no memory for an environment of %zu strings", count);
	for (size_t i = 0, n = 0; n < count; i += strlen(text + i) + 1)
		env[n++] = text + i;
	return env;
}

static void fd_pass(const char *path, int number)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		refuse(EXIT_REFUSED, "this is a fault of gdbrr", "cannot open %s: %s", path, strerror(errno));
	if (fcntl(number, F_GETFD) >= 0)
		refuse(EXIT_REFUSED, "close it before starting gdbrr",
			"descriptor %d, which gdbrr needs for itself, is already open", number);
	if (dup2(fd, number) < 0)
		refuse(EXIT_REFUSED, "raise the limit of open files", "cannot make descriptor %d: %s", number, strerror(errno));
	close(fd);
}

// The descriptors stand above what most limits allow; a descriptor stays valid when the limit is lowered again.
static void fds_pass(const struct options *opt)
{
	struct rlimit own, raised;
	getrlimit(RLIMIT_NOFILE, &own);
	raised = own;
	if (own.rlim_cur <= GR_FD_DATA) {
		if (own.rlim_max <= GR_FD_DATA)
			refuse(EXIT_REFUSED, "raise it with `ulimit -Hn 4096` as root or in /etc/security/limits.conf",
				"the hard limit of open files (%lu) is too low: gdbrr needs descriptors %d and %d",
				(unsigned long)own.rlim_max, GR_FD_CTL, GR_FD_DATA);
		raised.rlim_cur = GR_FD_DATA + 1;
		setrlimit(RLIMIT_NOFILE, &raised);
	}
	fd_pass(opt->ctl, GR_FD_CTL);
	fd_pass(opt->data, GR_FD_DATA);
	setrlimit(RLIMIT_NOFILE, &own);
}

// Everything that moves the stack, the heap or mappings. All of it is inherited by the program.
static void layout_fix(const struct options *opt)
{
	if (personality(0xffffffff) != ADDR_NO_RANDOMIZE &&
	    (personality(ADDR_NO_RANDOMIZE) < 0 || personality(0xffffffff) != ADDR_NO_RANDOMIZE))
		refuse(EXIT_REFUSED, "in Docker add --security-opt seccomp=unconfined, in systemd units LockPersonality=no",
			"address space randomisation cannot be switched off here (personality: %s)", strerror(errno));
	if (!opt->stack_limit)
		return;
	struct rlimit limit;
	getrlimit(RLIMIT_STACK, &limit);
	limit.rlim_cur = strcmp(opt->stack_limit, "unlimited") ? strtoull(opt->stack_limit, NULL, 10) : RLIM_INFINITY;
	if (setrlimit(RLIMIT_STACK, &limit) < 0)
		refuse(EXIT_REFUSED, "raise the hard limit (`ulimit -Hs`)",
			"the stack limit of %s bytes that the layout needs is not allowed here", opt->stack_limit);
}

// What a program inherits about signals, as bits from signal 1 on. Whoever starts us has handlers of its own. In this
// process all signals stay blocked: a Ctrl-C that the program outlives must not end its tracer.
static void signals_set(const struct options *opt)
{
	uint64_t ignored = opt->ignored ? strtoull(opt->ignored, NULL, 16) : 0;
	uint64_t all = ~0ULL;
	for (int sig = 1; opt->ignored && sig <= 64; sig++) {
		struct { void *handler; uint64_t flags; void *restorer; uint64_t mask; } action = {0};
		action.handler = ignored >> (sig - 1) & 1 ? (void *)SIG_IGN : (void *)SIG_DFL;
		syscall(SYS_rt_sigaction, sig, &action, NULL, 8); // refused for SIGKILL and SIGSTOP
	}
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, &own_mask, 8);
	if (opt->blocked)
		own_mask = strtoull(opt->blocked, NULL, 16);
}

// What the program-to-be tells its tracer when it does not come to its exec, or the exec fails.
struct failure { enum { FAILED_EXEC, FAILED_TERMINAL, FAILED_FENCE } step; enum gr_fence_part part; int err; };

// In the program-to-be. Nothing here may fail in silence.
// The program itself must lead its session: the end of a leader takes the terminal from everybody.
static _Noreturn void child_run(const struct options *opt, char **env, pid_t controller, int sync)
{
	char go;
	if (opt->die_with_parent) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != controller)
			_exit(EXIT_REFUSED);
	}
	if (opt->no_core)
		setrlimit(RLIMIT_CORE, &(struct rlimit){0});
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY); // Yama: this tracer now, a debugger's later; fails where there is no Yama
	if (write(sync, "r", 1) != 1 || read(sync, &go, 1) != 1)
		_exit(EXIT_REFUSED);
	syscall(SYS_rt_sigprocmask, SIG_SETMASK, &own_mask, NULL, 8);
	struct failure failure = {FAILED_TERMINAL, GR_FENCE_NONE, 0};
	if (!opt->session || (setsid() >= 0 && ioctl(0, TIOCSCTTY, 0) >= 0)) {
		if (opt->no_terminal)
			setsid(); // a group of its own in any case: we are no leader
		failure.step = FAILED_FENCE;
		if (ctl->mode == GR_MODE_REPLAY)
			failure.part = gr_fence_raise(ctl->slot[0].flags & GR_SLOT_HOLD_END, ctl->tasks_most);
		if (failure.part == GR_FENCE_NONE) {
			failure.step = FAILED_EXEC;
			execve(opt->exe, opt->argv, env);
		}
	}
	failure.err = errno;
	if (write(sync, &failure, sizeof failure) != sizeof failure)
		_exit(EXIT_REFUSED);
	_exit(EXIT_NOT_EXECUTABLE);
}

static _Noreturn void exec_failed(const struct options *opt, int err)
{
	const char *exe = opt->exe;
	struct stat st;
	switch (err) {
	case ENOENT:
		if (stat(exe, &st) == 0)
			refuse(EXIT_NOT_FOUND, "install its interpreter, or mend its first line", "%s: its interpreter does not exist", exe);
		refuse(EXIT_NOT_FOUND, "check the path", "%s: no such program", exe);
	case ENOTDIR:
		refuse(EXIT_NOT_FOUND, "check the path", "%s: no such program", exe);
	case EACCES:
		if (stat(exe, &st) == 0 && S_ISDIR(st.st_mode))
			refuse(EXIT_NOT_EXECUTABLE, "name a program in it", "%s is a directory", exe);
		refuse(EXIT_NOT_EXECUTABLE, "make it executable with chmod +x", "%s: permission denied", exe);
	case ENOEXEC:
		refuse(EXIT_NOT_EXECUTABLE, "a script needs a first line like #!/bin/sh", "%s is not in a format that the kernel can run", exe);
	case E2BIG:
		refuse(EXIT_NOT_EXECUTABLE, "pass less", "the arguments and environment of %s are too long", exe);
	case EAGAIN:
		refuse(EXIT_BUSY, "end some processes", "%s cannot be run: %s", exe, strerror(err));
	default:
		refuse(EXIT_NOT_EXECUTABLE, "see execve(2)", "%s cannot be run: %s", exe, strerror(err));
	}
}

static _Noreturn void failed(const struct options *opt, const struct failure *failure)
{
	switch (failure->step) {
	case FAILED_TERMINAL:
		refuse(EXIT_REFUSED, "give it a terminal", "descriptor 0 cannot become the program's terminal: %s", strerror(failure->err));
	case FAILED_FENCE:
		refuse(EXIT_REFUSED, "in Docker add --security-opt seccomp=unconfined; `gdbrr doctor` says more",
			"a replay must be confined, and the kernel refuses %s here (%s)", gr_fence_name(failure->part),
			strerror(failure->err));
	case FAILED_EXEC:
		break;
	}
	exec_failed(opt, failure->err);
}

// Until the exec has happened; then the program has not executed one instruction yet.
static void exec_await(const struct options *opt, int sync)
{
	char go;
	if (read(sync, &go, 1) != 1)
		refuse(EXIT_REFUSED, "look at the kernel log", "the program-to-be died before it began");
	if (ptrace(PTRACE_SEIZE, child, 0, PTRACE_O_TRACEEXEC | PTRACE_O_TRACESECCOMP | PTRACE_O_EXITKILL) < 0)
		refuse(EXIT_REFUSED, "in Docker add --cap-add SYS_PTRACE; elsewhere see /proc/sys/kernel/yama/ptrace_scope",
			"ptrace is not allowed here (%s), so the program's start cannot be made repeatable", strerror(errno));
	if (write(sync, "g", 1) != 1)
		refuse(EXIT_REFUSED, "look at the kernel log", "the program-to-be died before it began");
	for (;;) {
		int status;
		if (waitpid(child, &status, __WALL) < 0 && errno == EINTR)
			continue;
		if (WIFEXITED(status) || WIFSIGNALED(status)) {
			struct failure failure;
			if (recv(sync, &failure, sizeof failure, MSG_DONTWAIT) == sizeof failure)
				failed(opt, &failure);
			refuse(EXIT_REFUSED, "look at the kernel log", "the program died while it was being loaded");
		}
		int event = status >> 16; // that of seccomp is the fence asking for this one exec
		if (event == PTRACE_EVENT_EXEC)
			return;
		ptrace(PTRACE_CONT, child, 0, event ? 0 : WSTOPSIG(status));
	}
}

// Of a setuid or setgid program the kernel takes what layout_fix() did, even where nobody gets other rights by it.
static bool layout_kept(void)
{
	char path[64], text[16] = "";
	snprintf(path, sizeof path, "/proc/%d/personality", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	close(fd);
	return len <= 0 || strtoul(text, NULL, 16) & ADDR_NO_RANDOMIZE;
}

// A sanitizer's runtime brings an allocator, handlers and threads of its own in the places of the engine's. Known is it by the name
// of its library, or, linked into the program, by what it says in the end. The one for undefined behaviour does nothing of this.
static const struct {
	const char *mark, *name, *option;
} sanitizers[] = {
	{"libasan.so", "AddressSanitizer", "address"},
	{"libclang_rt.asan", "AddressSanitizer", "address"},
	{"ASan runtime does not come first", "AddressSanitizer", "address"},
	{"libhwasan.so", "HWAddressSanitizer", "hwaddress"},
	{"libtsan.so", "ThreadSanitizer", "thread"},
	{"ThreadSanitizer: unexpected memory mapping", "ThreadSanitizer", "thread"},
	{"liblsan.so", "LeakSanitizer", "leak"},
	{"LeakSanitizer has encountered a fatal error", "LeakSanitizer", "leak"},
	{"MemorySanitizer: unexpected memory mapping", "MemorySanitizer", "memory"},
};

// Looked through is what is only read of the program: its strings are there.
static void sanitizer_check(int fd, size_t size, const char *name)
{
	const uint8_t *file = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (file == MAP_FAILED)
		return;
	Elf64_Ehdr head;
	Elf64_Phdr part;
	memcpy(&head, file, sizeof head);
	size_t parts = head.e_phoff > size ? 0 : (size - head.e_phoff) / sizeof part;
	parts = parts < head.e_phnum ? parts : head.e_phnum;
	for (size_t i = 0; i < parts; i++) {
		memcpy(&part, file + head.e_phoff + i * sizeof part, sizeof part);
		if (part.p_type != PT_LOAD || part.p_flags != PF_R || part.p_offset > size || part.p_filesz > size - part.p_offset)
			continue;
		for (size_t which = 0; which < sizeof sanitizers / sizeof *sanitizers; which++)
			if (memmem(file + part.p_offset, part.p_filesz, sanitizers[which].mark, strlen(sanitizers[which].mark)))
				refuse(EXIT_REFUSED, "build it without; -fsanitize=undefined can be recorded",
					"%s is built with -fsanitize=%s, which gdbrr cannot record: %s takes the places of gdbrr's own engine", name,
					sanitizers[which].option, sanitizers[which].name);
	}
	munmap((void *)file, size);
}

// Looks at what was really loaded: of a script, the interpreter.
static void program_check(const struct options *opt)
{
	char link[64], name[PATH_MAX];
	snprintf(name, sizeof name, "%s", opt->exe);
	snprintf(link, sizeof link, "/proc/%d/exe", child);
	ssize_t len = readlink(link, name, sizeof name - 1);
	if (len > 0)
		name[len] = 0;
	int fd = open(link, O_RDONLY | O_CLOEXEC);
	unsigned char ident[EI_NIDENT];
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0 || read(fd, ident, sizeof ident) != sizeof ident)
		refuse(EXIT_REFUSED, "give yourself permission to read it", "%s can be executed but not read", name);
	if (ident[EI_CLASS] != ELFCLASS64)
		refuse(EXIT_REFUSED, "build it for x86-64", "%s is a 32-bit program, which gdbrr cannot record", name);
	bool setid = ((st.st_mode & S_ISUID) && st.st_uid != geteuid()) || ((st.st_mode & S_ISGID) && st.st_gid != getegid());
	bool gains = !layout_kept();
	if ((gains || geteuid() != 0) && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		refuse(EXIT_REFUSED, "run a copy of it without them", "%s has file capabilities, which gdbrr cannot record", name);
	if (setid || gains)
		refuse(EXIT_REFUSED, "run a copy of it without the setuid or setgid bit",
			"%s is a setuid or setgid program, which gdbrr cannot record", name);
	if ((size_t)st.st_size >= sizeof(Elf64_Ehdr))
		sanitizer_check(fd, (size_t)st.st_size, name);
	close(fd);
	if (gr_auxv_get(child, AT_BASE) == 0)
		refuse(EXIT_REFUSED, "link it dynamically, without -static",
			"%s is statically linked, which gdbrr cannot record: it records through a shared library", name);
	if (gr_auxv_get(child, AT_SECURE))
		refuse(EXIT_REFUSED, "run a copy of it without privileges", "%s runs with raised privileges, which gdbrr cannot record", name);
}

static void cwd_enter(const char *dir)
{
	if (dir && chdir(dir) < 0)
		refuse(EXIT_REFUSED, "create it", "the working directory %s cannot be entered: %s", dir, strerror(errno));
}

// False when the program has ended before the engine started, which its parent is to say.
static bool followed(void)
{
	switch (gr_carried_follow(child)) {
	case GR_FOLLOWED_NO_ROOM:
		refuse(EXIT_REFUSED, "replay it on a kernel like that of the recording (gdbrr info names it)",
			"this kernel has something else in memory where the recording had its libraries");
	case GR_FOLLOWED_TO_END:
		return false;
	case GR_FOLLOWED_TO_ENGINE:
		break;
	}
	return true;
}

int main(int argc, char **argv)
{
	struct options opt;
	if (argc > 1 && strcmp(argv[1], "--trace") == 0)
		return gr_trace(argc - 1, argv + 1);
	options_parse(argc, argv, &opt);
	pid_t controller = getppid();
	char **env = env_read(opt.env_file);
	fds_pass(&opt);
	ctl = mmap(NULL, sizeof *ctl, PROT_READ | PROT_WRITE, MAP_SHARED, GR_FD_CTL, 0);
	if (ctl == MAP_FAILED) {
		ctl = NULL;
		refuse(EXIT_REFUSED, "this is a fault of gdbrr", "the control page cannot be mapped: %s", strerror(errno));
	}
	madvise(ctl, sizeof *ctl, MADV_RANDOM); // see open_pages in init.c
	if ((opt.carried && !gr_carried_open(opt.carried, false)) || (opt.log && !gr_carried_open(opt.log, true)))
		refuse(EXIT_REFUSED, "this is a fault of gdbrr", "the loader's table cannot be opened: %s", strerror(errno));
	cwd_enter(gr_carried_dir() ? gr_carried_dir() : opt.cwd);
	layout_fix(&opt);
	signals_set(&opt);
	int sync[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sync) < 0)
		refuse(EXIT_REFUSED, "free some descriptors", "no socket pair: %s", strerror(errno));
	uint64_t share = opt.carried ? CLONE_FS : 0; // the working directory of both is changed behind the exec
	child = (pid_t)syscall(SYS_clone, CLONE_PARENT | SIGCHLD | share, 0, 0, 0, 0);
	if (child == 0) {
		close(sync[0]);
		child_run(&opt, env, controller, sync[1]);
	}
	if (child < 0)
		refuse(errno == EAGAIN ? EXIT_BUSY : EXIT_REFUSED, "end some processes", "no new process: %s", strerror(errno));
	ctl->slot[0].pid = (uint32_t)child;
	close(sync[1]);
	exec_await(&opt, sync[0]);
	program_check(&opt);
	if ((opt.has_random && !gr_random_set(child, opt.random)) || !gr_random_hide(child))
		refuse(EXIT_REFUSED, "report it", "the randomness of the program's start cannot be taken away: %s", strerror(errno));
	if (opt.carried)
		cwd_enter(opt.cwd), gr_carried_restore(child);
	if ((opt.carried || opt.log) && !followed())
		return 0;
	if (opt.cache_pages >= 0 && gr_libraries_move((uint64_t)opt.cache_pages))
		gr_libraries_place(child, (uint64_t)opt.cache_pages);
	if (opt.stop)
		kill(child, SIGSTOP); // pending now, taken before the first instruction
	if (ptrace(PTRACE_DETACH, child, 0, 0) < 0)
		refuse(EXIT_REFUSED, "report it", "the program cannot be let go: %s", strerror(errno));
	return 0;
}
