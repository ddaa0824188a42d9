// Mapped files: what write, truncate and their kin do to a shared view, and what a view does to the file.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static char *now(void)
{
	static char text[40];
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	snprintf(text, sizeof text, "%09ld", ts.tv_nsec);
	return text;
}

static void must(int condition, int line)
{
	if (!condition) {
		printf("line %d: ", line);
		perror("failed");
		exit(1);
	}
}
#define MUST(what) must(!!(what), __LINE__)

static void use(int fd, const char *name, int prot)
{
	char back[40] = "";
	MUST(ftruncate(fd, 10000) == 0);
	char *view = mmap(NULL, 20480, prot, MAP_SHARED, fd, 0);
	MUST(view != MAP_FAILED);
	MUST(write(fd, now(), 9) == 9);
	printf("%s write %.9s\n", name, view);
	MUST(pwrite(fd, now(), 9, 4090) == 9);
	printf("pwrite %.9s\n", view + 4090);
	struct iovec iov[2] = {{now(), 9}, {"xyz", 3}};
	MUST(pwritev(fd, iov, 2, 8000) == 12);
	printf("pwritev %.12s\n", view + 8000);
	MUST(lseek(fd, 100, SEEK_SET) == 100);
	MUST(writev(fd, iov, 2) == 12);
	printf("writev %.12s\n", view + 100);
	if (prot & PROT_WRITE) {
		strcpy(view + 200, now());
		MUST(pread(fd, back, 9, 200) == 9);
		printf("through the view %s %.9s\n", back, view + 200);
		MUST(msync(view, 4096, MS_SYNC) == 0);
	}
	MUST(pwrite(fd, now(), 9, 16000) == 9); // the file grows below the view
	printf("grown %.9s\n", view + 16000);
	MUST(ftruncate(fd, 4092) == 0);
	MUST(ftruncate(fd, 20000) == 0);
	printf("cut %.2s %d %d\n", view + 4090, view[4092], view[16000]);
	MUST(pwrite(fd, now(), 9, 300) == 9);
	MUST(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 302, 2) == 0);
	printf("hole %.2s %d %d %.5s\n", view + 300, view[302], view[303], view + 304);
	MUST(munmap(view + 4096, 4096) == 0); // a hole in the view
	MUST(pwrite(fd, now(), 9, 4090) == 9);
	printf("partly %.6s\n", view + 4090);
	MUST(pwrite(fd, now(), 9, 12288) == 9);
	printf("behind %.9s\n", view + 12288);
	char *moved = mremap(view, 4096, 40960, MREMAP_MAYMOVE);
	MUST(moved != MAP_FAILED && moved != view);
	MUST(pwrite(fd, now(), 9, 15000) == 9);
	printf("moved %.9s %.9s %.9s\n", moved + 15000, view + 15000, moved + 12288);
	MUST(madvise(moved, 4096, MADV_DONTNEED) == 0);
	printf("dropped %.9s\n", moved);
	char *private = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	MUST(private != MAP_FAILED);
	private[0] = '!';
	printf("private %.9s\n", private);
	MUST(madvise(private, 4096, MADV_DONTNEED) == 0);
	printf("private again %.9s\n", private);
	MUST(munmap(moved, 40960) == 0 && munmap(view, 20480) == 0 && munmap(private, 4096) == 0);
}

int main(void)
{
	char path[] = "/tmp/calls-views-XXXXXX", source[40];
	int fd = mkstemp(path), other;
	MUST(fd >= 0);
	use(fd, "file", PROT_READ | PROT_WRITE);
	use(fd, "read only view", PROT_READ);
	int memory = memfd_create("memory", 0);
	use(memory, "memfd", PROT_READ | PROT_WRITE);

	char *view = mmap(NULL, 4096, PROT_READ, MAP_SHARED, memory, 0);
	MUST((other = open(path, O_RDWR | O_TRUNC)) >= 0);
	strcpy(source, now());
	MUST(write(other, source, 9) == 9);
	off_t from = 0, to = 50;
	MUST(lseek(memory, 0, SEEK_SET) == 0);
	MUST(sendfile(memory, other, &from, 9) == 9);
	printf("sendfile %.9s %ld\n", view, (long)from);
	from = 2;
	if (syscall(SYS_copy_file_range, other, &from, memory, &to, 5, 0) == 5)
		printf("copy_file_range %.5s\n", view + 50);
	else
		puts("no copy_file_range");
	char *gone = mmap(NULL, 4096, PROT_READ, MAP_SHARED, other, 0);
	int third = open(path, O_WRONLY | O_APPEND);
	MUST(write(third, now(), 9) == 9);
	printf("another descriptor %.18s\n", gone);
	MUST(open(path, O_WRONLY | O_TRUNC) >= 0);
	MUST(write(third, "short", 5) == 5);
	printf("open truncates %s\n", gone);
	unlink(path);
	return 0;
}
