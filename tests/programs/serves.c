// A server that reads a file for each question and ends when it is told to; `ask` is its client.
// Runs in: tests. May call: libc.
// Owns: the socket at PATH. Natively different: when its clients come.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static volatile sig_atomic_t told;

static void on_signal(int number)
{
	told = number;
}

static long lines_of(const char *path)
{
	FILE *file = fopen(path, "r");
	long lines = 0;
	for (int c; file && (c = getc(file)) != EOF;)
		lines += c == '\n';
	if (file)
		fclose(file);
	return lines;
}

static int ask(const struct sockaddr_un *where, const char *path)
{
	char answer[64];
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (connect(fd, (const struct sockaddr *)where, sizeof *where) < 0)
		return 1;
	dprintf(fd, "%s", path);
	shutdown(fd, SHUT_WR);
	return read(fd, answer, sizeof answer) > 0 ? 0 : 1;
}

// serves PATH: until SIGTERM or SIGINT. serves PATH ask FILE: how many lines FILE has.
int main(int argc, char **argv)
{
	struct sockaddr_un where = {.sun_family = AF_UNIX};
	struct sigaction act = {.sa_handler = on_signal};
	snprintf(where.sun_path, sizeof where.sun_path, "%s", argv[1]);
	if (argc > 3)
		return ask(&where, argv[3]);
	unlink(argv[1]);
	int fd = socket(AF_UNIX, SOCK_STREAM, 0), questions = 0;
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
	if (bind(fd, (struct sockaddr *)&where, sizeof where) < 0 || listen(fd, 4) < 0)
		return 2;
	while (!told) {
		char path[256] = "";
		int guest = accept(fd, NULL, NULL);
		if (guest < 0)
			continue;
		if (read(guest, path, sizeof path - 1) > 0)
			questions++;
		dprintf(guest, "%ld", lines_of(path));
		close(guest);
	}
	printf("%d questions, then signal %d\n", questions, (int)told);
	return 0;
}
