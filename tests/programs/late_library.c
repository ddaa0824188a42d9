// A library is loaded late, called twice and closed again. What natively differs is when the clock says so.
#include <dlfcn.h>
#include <stdio.h>
#include <time.h>

static double root(double (*find)(double), double of)
{
	return find(of);
}

int main(void)
{
	void *library = dlopen("libm.so.6", RTLD_NOW);
	double (*find)(double) = library ? (double (*)(double))dlsym(library, "cbrt") : NULL;
	if (!find)
		return 1;
	double sum = root(find, 27);
	sum += root(find, 64);
	dlclose(library);
	printf("%.0f at %ld\n", sum, (long)time(NULL));
	return 0;
}
