// The loader's questions and their answers; see carried.h.
// Runs in: gdbrr-launch.
// May call: libc, ptrace of the child.
// Owns: the table: records of four strings, each ended by a zero byte.
//
//   exec   DIR     SHOWN   -        where the program lies, and how its name reads on its stack
//   interp OFFSET  SIZE    -        what its PT_INTERP says; the file that is executed names another loader
//   path   NR      PATH    ANSWER   a call with a name: =FILE is used instead, -ERRNO and >TEXT are the result
//   map    LENGTH  ADDRESS -        where the next mapping of that length lay that the kernel chose a place for
//   auxv   TYPE    VALUE   -        an entry of the auxiliary vector, in its order
//   stat   DEVICE  INODE   -        what the next question about a descriptor was answered
//
// A log has the same records; there the answer to a call that succeeded is +.
// INVARIANT(nothing-of-this-machine): what has no answer in the table does not exist, but for what the kernel makes up.

#define _GNU_SOURCE
#include "carried.h"

#include "abi.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

struct record { const char *verb, *a, *b, *c; };

static struct record *table;
static size_t count;
static size_t next_map, next_stat; // records of these kinds are used up in their order
static FILE *log_file;

// ---------------------------------------------------------------- the table
static bool table_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	size_t len = (size_t)st.st_size, strings = 0;
	char *text = calloc(len + 1, 1); // so that the last string ends in any case
	bool whole = text && read(fd, text, len) == (ssize_t)len;
	close(fd);
	if (!whole)
		return false;
	for (size_t i = 0; i < len; i++)
		strings += text[i] == 0;
	table = calloc(strings / 4 + 1, sizeof *table);
	if (!table)
		return false;
	for (char *at = text; count < strings / 4; count++) {
		const char **field[4] = {&table[count].verb, &table[count].a, &table[count].b, &table[count].c};
		for (int i = 0; i < 4; i++, at += strlen(at) + 1)
			*field[i] = at;
	}
	return true;
}

bool gr_carried_open(const char *path, bool log)
{
	if (!log)
		return table_read(path);
	log_file = fopen(path, "we");
	return log_file != NULL;
}

static void log_write(const char *verb, const char *a, const char *b, const char *c)
{
	fprintf(log_file, "%s%c%s%c%s%c%s%c", verb, 0, a, 0, b, 0, c, 0);
}

static void log_numbers(const char *verb, uint64_t a, uint64_t b)
{
	char first[24], second[24];
	snprintf(first, sizeof first, "%lu", a);
	snprintf(second, sizeof second, "%lu", b);
	log_write(verb, first, second, "-");
}

static const struct record *first_of(const char *verb)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(table[i].verb, verb))
			return &table[i];
	return NULL;
}

// The next record of a kind behind `*from`, whose first field is `a` where one is asked for.
static const struct record *next_of(const char *verb, size_t *from, const char *a)
{
	for (size_t i = *from; i < count; i++)
		if (!strcmp(table[i].verb, verb) && (!a || !strcmp(table[i].a, a))) {
			*from = i + 1;
			return &table[i];
		}
	return NULL;
}

static const char *answer_to(long nr, const char *path)
{
	static const char *const made_up[] = {"/proc/", "/sys/", "/dev/"};
	for (size_t i = 0; i < count; i++)
		if (!strcmp(table[i].verb, "path") && atol(table[i].a) == nr && !strcmp(table[i].b, path))
			return table[i].c;
	for (size_t i = 0; i < sizeof made_up / sizeof *made_up; i++)
		if (!strncmp(path, made_up[i], strlen(made_up[i])))
			return NULL;
	return "-2"; // ENOENT
}

const char *gr_carried_dir(void)
{
	const struct record *found = first_of("exec");
	return found ? found->a : NULL;
}

// ---------------------------------------------------------------- the child's memory
static void memory_read(pid_t child, uint64_t addr, void *to, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(long)) {
		long word = ptrace(PTRACE_PEEKDATA, child, addr + i, 0);
		memcpy((char *)to + i, &word, len - i < sizeof word ? len - i : sizeof word);
	}
}

static void memory_write(pid_t child, uint64_t addr, const void *from, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(long)) {
		long word = ptrace(PTRACE_PEEKDATA, child, addr + i, 0);
		memcpy(&word, (const char *)from + i, len - i < sizeof word ? len - i : sizeof word);
		ptrace(PTRACE_POKEDATA, child, addr + i, word);
	}
}

static void path_read(pid_t child, uint64_t addr, char path[PATH_MAX])
{
	size_t len = 0;
	while (len + sizeof(long) < PATH_MAX) {
		errno = 0;
		long word = ptrace(PTRACE_PEEKDATA, child, addr + len, 0);
		if (errno)
			break;
		memcpy(path + len, &word, sizeof word);
		if (memchr(path + len, 0, sizeof word))
			return;
		len += sizeof word;
	}
	path[len] = 0;
}

uint64_t gr_auxv_get(pid_t child, uint64_t type)
{
	char path[64];
	Elf64_auxv_t entry;
	uint64_t value = 0;
	snprintf(path, sizeof path, "/proc/%d/auxv", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, &entry, sizeof entry) == sizeof entry)
		if (entry.a_type == type)
			value = entry.a_un.a_val;
	if (fd >= 0)
		close(fd);
	return value;
}

// Who the user is, and how large a signal's frame may become. What the processor can do is left alone: code relies on it.
static bool is_told(uint64_t type)
{
	return type == AT_UID || type == AT_EUID || type == AT_GID || type == AT_EGID || type == 51 /* AT_MINSIGSTKSZ */;
}

static void auxv_log(pid_t child)
{
	char path[64];
	Elf64_auxv_t entry;
	snprintf(path, sizeof path, "/proc/%d/auxv", child);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, &entry, sizeof entry) == sizeof entry && entry.a_type != AT_NULL)
		log_numbers("auxv", entry.a_type, entry.a_un.a_val);
	if (fd >= 0)
		close(fd);
}

#define AUXV_MOST 64

// The vector as it was: of each entry what it is here, unless it tells of the user or is not here. Its length with AT_NULL; 0
// where the table has only entries of the user, as before gdbrr's format 3.2.
static size_t auxv_recorded(const Elf64_auxv_t *here, Elf64_auxv_t ret[AUXV_MOST])
{
	size_t len = 0;
	bool whole = false;
	for (size_t i = 0; i < count && len < AUXV_MOST - 1; i++) {
		if (strcmp(table[i].verb, "auxv"))
			continue;
		Elf64_auxv_t *entry = &ret[len++];
		entry->a_type = strtoull(table[i].a, NULL, 10);
		entry->a_un.a_val = strtoull(table[i].b, NULL, 10);
		whole |= entry->a_type == AT_PHDR;
		for (const Elf64_auxv_t *ours = here; ours->a_type != AT_NULL && !is_told(entry->a_type); ours++)
			if (ours->a_type == entry->a_type)
				*entry = *ours;
	}
	ret[len++] = (Elf64_auxv_t){.a_type = AT_NULL};
	return whole ? len : 0;
}

// INVARIANT(same-stack): a newer kernel tells more, and the stack begins below that. So the arguments and the environment
// move to where they were; the vector ends where it does.
static void auxv_reshape(pid_t child, struct user_regs_struct *regs, uint64_t at, const Elf64_auxv_t *here, size_t len)
{
	Elf64_auxv_t recorded[AUXV_MOST];
	size_t total = auxv_recorded(here, recorded), size = at - regs->rsp;
	if (!total)
		return;
	uint64_t from = regs->rsp;
	uint64_t *words = calloc(1, size);
	if (!words)
		return;
	regs->rsp += (len - total) * sizeof *recorded;
	memory_read(child, from, words, size);
	memory_write(child, regs->rsp, words, size);
	memory_write(child, regs->rsp + size, recorded, total * sizeof *recorded);
	for (uint64_t none = 0; from < regs->rsp; from += sizeof none)
		memory_write(child, from, &none, sizeof none);
	free(words);
	ptrace(PTRACE_SETREGS, child, 0, regs);
}

// It stands behind the environment, at the first instruction.
static void auxv_restore(pid_t child)
{
	struct user_regs_struct regs;
	Elf64_auxv_t here[AUXV_MOST];
	size_t len = 0;
	uint64_t word;
	ptrace(PTRACE_GETREGS, child, 0, &regs);
	uint64_t at = regs.rsp + 8;
	for (int lists = 0; lists < 2; at += 8) { // the arguments, then the environment, each with a zero behind it
		memory_read(child, at, &word, sizeof word);
		lists += word == 0;
	}
	do {
		Elf64_auxv_t *entry = &here[len];
		memory_read(child, at + len * sizeof *entry, entry, sizeof *entry);
		for (size_t i = 0; i < count; i++)
			if (!strcmp(table[i].verb, "auxv") && strtoull(table[i].a, NULL, 10) == entry->a_type && is_told(entry->a_type)) {
				entry->a_un.a_val = strtoull(table[i].b, NULL, 10);
				memory_write(child, at + len * sizeof *entry, entry, sizeof *entry);
			}
	} while (here[len++].a_type != AT_NULL && len < AUXV_MOST);
	if (here[len - 1].a_type == AT_NULL)
		auxv_reshape(child, &regs, at, here, len);
}

void gr_carried_restore(pid_t child)
{
	auxv_restore(child);
	const struct record *exec = first_of("exec"), *interp = first_of("interp");
	if (exec)
		memory_write(child, gr_auxv_get(child, AT_EXECFN), exec->b, strlen(exec->b));
	uint64_t at = gr_auxv_get(child, AT_PHDR), rows = gr_auxv_get(child, AT_PHNUM);
	for (Elf64_Phdr row; interp && rows > 0; rows--, at += sizeof row) {
		memory_read(child, at, &row, sizeof row);
		if (row.p_type != PT_INTERP)
			continue;
		row.p_offset = strtoull(interp->a, NULL, 10);
		row.p_filesz = strtoull(interp->b, NULL, 10);
		memory_write(child, at, &row, sizeof row);
	}
}

// ---------------------------------------------------------------- calls
typedef unsigned long long word; // as struct user_regs_struct has them

// The argument that is a name; 0 where the call has none.
static word *name_of(struct user_regs_struct *regs)
{
	switch (regs->orig_rax) {
	case SYS_open: case SYS_stat: case SYS_lstat: case SYS_access: case SYS_readlink:
		return &regs->rdi;
	case SYS_openat: case SYS_newfstatat: case SYS_faccessat: case SYS_faccessat2: case SYS_readlinkat: case SYS_statx:
		return &regs->rsi;
	}
	return NULL;
}

static bool is_link(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_readlink || regs->orig_rax == SYS_readlinkat;
}

static uint64_t link_buffer(const struct user_regs_struct *regs)
{
	return regs->orig_rax == SYS_readlink ? regs->rsi : regs->rdx;
}

// The call under way, as the program made it, and what is to be done at its end.
static struct {
	struct user_regs_struct regs;
	char path[PATH_MAX], saved[PATH_MAX];
	const char *result; // -ERRNO or >TEXT
	uint64_t scratch; // where the stack holds another name
	bool named, placed, changed;
} call;

static void file_put(pid_t child, struct user_regs_struct *regs, const char *file)
{
	call.scratch = (regs->rsp - 1024 - PATH_MAX) & ~7ULL;
	memory_read(child, call.scratch, call.saved, sizeof call.saved);
	memory_write(child, call.scratch, file, strlen(file) + 1);
	*name_of(regs) = call.scratch;
}

static void call_begins(pid_t child)
{
	struct user_regs_struct regs;
	ptrace(PTRACE_GETREGS, child, 0, &regs);
	call.regs = regs;
	call.result = NULL;
	call.scratch = 0;
	call.placed = call.changed = false;
	word *name = name_of(&regs);
	if (name)
		path_read(child, *name, call.path);
	call.named = name && call.path[0]; // without, the call is about a descriptor
	if (log_file)
		return;
	if (call.named) {
		const char *answer = answer_to((long)regs.orig_rax, call.path);
		if (answer && *answer == '=') {
			file_put(child, &regs, answer + 1);
		} else if (answer) {
			call.result = answer;
			regs.orig_rax = ~0ULL; // no call
		}
		call.changed = answer;
	} else if (regs.orig_rax == SYS_mmap && regs.rdi == 0) {
		char length[24];
		snprintf(length, sizeof length, "%llu", regs.rsi);
		const struct record *map = next_of("map", &next_map, length);
		if (map) {
			regs.rdi = strtoull(map->b, NULL, 10);
			regs.r10 |= MAP_FIXED_NOREPLACE;
			call.placed = call.changed = true;
		}
	}
	if (call.changed)
		ptrace(PTRACE_SETREGS, child, 0, &regs);
}

static bool is_stat_of_descriptor(void)
{
	return call.regs.orig_rax == SYS_fstat || (call.regs.orig_rax == SYS_newfstatat && !call.named);
}

static void call_logged(pid_t child, const struct user_regs_struct *regs)
{
	long ret = (long)regs->rax;
	uint64_t id[2];
	if (call.named) {
		char nr[24], result[PATH_MAX + 24] = "+";
		snprintf(nr, sizeof nr, "%llu", call.regs.orig_rax);
		if (ret < 0) {
			snprintf(result, sizeof result, "%ld", ret);
		} else if (is_link(&call.regs)) {
			size_t len = (size_t)ret < PATH_MAX ? (size_t)ret : PATH_MAX;
			result[0] = '>';
			memory_read(child, link_buffer(&call.regs), result + 1, len);
			result[len + 1] = 0;
		}
		log_write("path", nr, call.path, result);
	} else if (call.regs.orig_rax == SYS_mmap && call.regs.rdi == 0 && ret > 0) {
		log_numbers("map", call.regs.rsi, (uint64_t)ret);
	} else if (is_stat_of_descriptor() && ret == 0) {
		memory_read(child, call.regs.orig_rax == SYS_fstat ? call.regs.rsi : call.regs.rdx, id, sizeof id);
		log_numbers("stat", id[0], id[1]);
	}
}

// False when the place of a mapping is taken.
static bool call_ends(pid_t child)
{
	struct user_regs_struct regs;
	ptrace(PTRACE_GETREGS, child, 0, &regs);
	if (log_file) {
		call_logged(child, &regs);
		return true;
	}
	if (is_stat_of_descriptor() && regs.rax == 0) {
		const struct record *stat = next_of("stat", &next_stat, NULL);
		const uint64_t id[2] = {stat ? strtoull(stat->a, NULL, 10) : 0, stat ? strtoull(stat->b, NULL, 10) : 0};
		if (stat)
			memory_write(child, call.regs.orig_rax == SYS_fstat ? call.regs.rsi : call.regs.rdx, id, sizeof id);
	}
	if (!call.changed)
		return true;
	if (call.placed && (long)regs.rax < 0)
		return false;
	word rax = regs.rax, rcx = regs.rcx, r11 = regs.r11;
	if (call.result && *call.result == '>') {
		word room = call.regs.orig_rax == SYS_readlink ? call.regs.rdx : call.regs.r10;
		size_t len = strlen(call.result + 1);
		rax = len < room ? len : room;
		memory_write(child, link_buffer(&call.regs), call.result + 1, rax);
	} else if (call.result) {
		rax = (word)atol(call.result);
	}
	if (call.scratch)
		memory_write(child, call.scratch, call.saved, sizeof call.saved);
	regs = call.regs; // the arguments as they were; of a call only these three registers change
	regs.rax = rax, regs.rcx = rcx, regs.r11 = r11;
	ptrace(PTRACE_SETREGS, child, 0, &regs);
	return true;
}

enum gr_followed gr_carried_follow(pid_t child)
{
	long signal = 0;
	bool known = false; // the exec itself is still under way
	ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	if (log_file)
		auxv_log(child);
	for (;;) {
		int status;
		struct __ptrace_syscall_info info = {0};
		if (ptrace(PTRACE_SYSCALL, child, 0, signal) < 0 || waitpid(child, &status, __WALL) < 0 || !WIFSTOPPED(status))
			break;
		signal = status >> 16 ? 0 : WSTOPSIG(status);
		if (signal != (SIGTRAP | 0x80))
			continue;
		signal = 0;
		ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof info, &info);
		if (info.op == PTRACE_SYSCALL_INFO_ENTRY) {
			if (info.entry.nr == SYS_fstat && info.entry.args[0] == GR_FD_CTL) {
				if (log_file)
					fflush(log_file);
				return GR_FOLLOWED_TO_ENGINE;
			}
			call_begins(child);
			known = true;
		} else if (info.op == PTRACE_SYSCALL_INFO_EXIT && known && !call_ends(child)) {
			return GR_FOLLOWED_NO_ROOM;
		}
	}
	return GR_FOLLOWED_TO_END;
}
