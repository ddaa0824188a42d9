// Loads one library behind the other at the same place: call sites at equal addresses, with something else behind the call.
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	void *place = NULL;
	for (int i = 1; i < argc; i++) {
		void *library = dlopen(argv[i], RTLD_NOW);
		long (*site)(long) = library ? (long (*)(long))dlsym(library, "site") : NULL;
		long sum = 0;
		if (!site)
			return 1;
		for (int n = 0; n < 400; n++)
			sum += site(39) - getpid();
		printf("%ld%s\n", sum, place == (void *)site ? " again" : "");
		place = site;
		dlclose(library);
	}
	return 0;
}
