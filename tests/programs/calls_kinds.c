// Prints what directory, file and random device behind its arguments hold: each is a kind of descriptor with a rule of its own.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char text[64] = "";
	unsigned char random[8] = {0};
	struct dirent *entry;
	if (argc < 3)
		return 2;
	DIR *directory = opendir(argv[1]);
	int entries = 0;
	while (directory && (entry = readdir(directory)))
		entries++;
	int file = open(argv[2], O_RDONLY);
	ssize_t n = read(file, text, sizeof text - 1);
	int device = open("/dev/urandom", O_RDONLY);
	if (read(device, random, sizeof random) != sizeof random)
		return 3;
	printf("%d entries, %zd bytes: %s, ", entries, n, text);
	for (unsigned i = 0; i < sizeof random; i++)
		printf("%02x", random[i]);
	printf("\n");
	return 0;
}
