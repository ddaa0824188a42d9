// A terminal program: raw mode, its own size of the window, every key at once; `q` ends it, `i` waits for a signal.
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;

static void restore(void)
{
	tcsetattr(0, TCSANOW, &before);
}

int main(void)
{
	struct termios raw;
	struct winsize size;
	char key;
	if (tcgetattr(0, &before) < 0)
		return 2;
	atexit(restore);
	raw = before;
	raw.c_lflag &= ~(ICANON | ECHO);
	tcsetattr(0, TCSANOW, &raw);
	printf("ready\r\n");
	fflush(stdout);
	while (read(0, &key, 1) == 1 && key != 'q') {
		ioctl(0, TIOCGWINSZ, &size);
		printf("key %c at %d by %d\r\n", key, size.ws_row, size.ws_col);
		fflush(stdout);
	}
	return 5;
}
