// A program that writes files and reads them back in every way, and cleans up: a replay does none of it again.
// argv[1]: a directory of its own; argv[2]: change the file that was there before, too.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#pragma GCC diagnostic ignored "-Wunused-result" // what matters is printed

static char *now(void)
{
	static char text[40];
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	snprintf(text, sizeof text, "%09ld", ts.tv_nsec);
	return text;
}

static void show(const char *path)
{
	char text[64] = "";
	struct stat st = {0};
	int fd = open(path, O_RDONLY);
	ssize_t n = fd < 0 ? -errno : read(fd, text, sizeof text - 1);
	stat(path, &st);
	printf("%s: %zd %s, %ld bytes, %o, access %d\n", path, n, text, (long)st.st_size, st.st_mode, access(path, W_OK));
	if (fd >= 0)
		close(fd);
}

static void put(const char *path, int flags)
{
	int fd = open(path, flags, 0644);
	printf("%s %x: %zd\n", path, flags, write(fd, now(), 9));
	close(fd);
}

static void list(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *entry;
	printf("%s:", path);
	while (dir && (entry = readdir(dir)))
		printf(" %s", entry->d_name);
	puts("");
	if (dir)
		closedir(dir);
}

int main(int argc, char **argv)
{
	char link[64] = "", cwd[512] = "", xattr[32] = "";
	struct statfs fs;
	if (argc < 2 || chdir(argv[1]))
		return 1;
	list(".");
	show("input"); // there before us
	put("a", O_WRONLY | O_CREAT | O_EXCL);
	show("a");
	put("a", O_WRONLY | O_APPEND);
	put("a", O_RDWR);
	show("a");
	put("a", O_WRONLY | O_TRUNC);
	show("a");
	truncate("a", 3);
	show("a");
	list(".");
	rename("a", "b");
	show("a");
	show("b");
	symlink("b", "s");
	readlink("s", link, sizeof link - 1);
	printf("link %s\n", link);
	show("s");
	mkdir("d", 0755);
	chdir("d");
	put("inner", O_WRONLY | O_CREAT);
	show("inner");
	show("../b");
	show("../input");
	getcwd(cwd, sizeof cwd);
	printf("%s\n", strrchr(cwd, '/'));
	chdir("..");
	show("input");
	chmod("b", 0600);
	setxattr("b", "user.x", now(), 9, 0);
	printf("xattr %zd %s\n", getxattr("b", "user.x", xattr, sizeof xattr), xattr);
	show("b");
	int tmp = open(".", O_TMPFILE | O_RDWR, 0600);
	char back[16] = "";
	if (tmp >= 0 && write(tmp, now(), 9) == 9 && pread(tmp, back, 9, 0) == 9)
		printf("unnamed %s\n", back);
	int rw = open("c", O_RDWR | O_CREAT, 0644);
	ftruncate(rw, 100);
	pwrite(rw, now(), 9, 20);
	lseek(rw, 20, SEEK_SET);
	printf("read back %zd %s\n", read(rw, back, 9), back);
	struct iovec iov[2] = {{back, 3}, {back + 3, 6}};
	struct statx sx;
	printf("preadv2 %zd %s\n", preadv2(rw, iov, 2, 20, 0), back);
	printf("statx %d %ld %u\n", statx(rw, "", AT_EMPTY_PATH, STATX_ALL, &sx), (long)sx.stx_size, sx.stx_mtime.tv_nsec);
	printf("locks %d %d\n", flock(rw, LOCK_EX), fcntl(rw, F_SETLK, &(struct flock){F_WRLCK, SEEK_SET, 0, 0, 0}));
	char *map = mmap(NULL, 100, PROT_READ, MAP_SHARED, rw, 0);
	printf("mapped %s\n", map + 20);
	FILE *f = argc > 2 ? fopen("input", "r+") : NULL; // natively, a replay would find it changed
	if (f) {
		fseek(f, 0, SEEK_END);
		fprintf(f, " and %s", now());
		fclose(f);
	}
	show("input");
	int ro = open("b", O_RDONLY);
	printf("fchmod %d\n", fchmod(ro, 0640));
	printf("futimens %d\n", futimens(ro, NULL));
	show("b");
	statfs(".", &fs);
	printf("free %ld\n", (long)fs.f_bfree);
	list(".");
	unlink("b");
	unlink("s");
	unlink("c");
	unlink("d/inner");
	rmdir("d");
	list(".");
	show("b");
	return 0;
}
