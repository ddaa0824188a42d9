// Random numbers from where glibc 2.41 takes them: the generator of the kernel's own library, if that has one.
// Runs in: a program of its own, natively, recorded and replayed.
// May call: libc.
// Owns: nothing.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

struct parameters { uint32_t size, protection, flags, reserved[13]; }; // struct vgetrandom_opaque_params

int main(void)
{
	long (*generate)(void *, size_t, unsigned, void *, size_t) = NULL;
	void *library = dlopen("linux-vdso.so.1", RTLD_LAZY | RTLD_NOLOAD), *state = NULL;
	struct parameters parameters = {0};
	if (library)
		*(void **)&generate = dlsym(library, "__vdso_getrandom");
	if (generate) {
		long failed = generate(NULL, 0, 0, &parameters, ~0UL);
		if (failed) {
			printf("the generator says: %s\n", strerror((int)-failed));
			return 1;
		}
		state = mmap(NULL, 4096, (int)parameters.protection, (int)parameters.flags, -1, 0);
	}
	for (int i = 0; i < 4; i++) {
		uint64_t number;
		long len = generate ? generate(&number, sizeof number, 0, state, parameters.size) : getrandom(&number, sizeof number, 0);
		printf("%ld bytes, %016lx\n", len, len == sizeof number ? number : 0);
	}
	return 0;
}
