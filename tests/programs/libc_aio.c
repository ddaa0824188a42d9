// Asynchronous input: the C library's own threads wait for conditions under a mutex of its own. Natively different: what is read.
#include <aio.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

#define JOBS 4

int main(void)
{
	static unsigned char buffers[JOBS][80];
	struct aiocb jobs[JOBS] = {0}, *all[JOBS];
	int files[2] = {open("/proc/self/stat", O_RDONLY), open("/dev/urandom", O_RDONLY)};
	unsigned sum = 0;
	for (int round = 0; round < 5; round++) {
		for (int i = 0; i < JOBS; i++) {
			jobs[i] = (struct aiocb){.aio_fildes = files[i % 2], .aio_buf = buffers[i], .aio_nbytes = 64 + (size_t)i};
			jobs[i].aio_lio_opcode = LIO_READ;
			all[i] = &jobs[i];
		}
		lio_listio(LIO_NOWAIT, all, JOBS, NULL);
		for (int i = 0; i < JOBS; i++) {
			const struct aiocb *one[] = {&jobs[i]};
			while (aio_error(&jobs[i]) == EINPROGRESS)
				aio_suspend(one, 1, NULL);
			long got = aio_return(&jobs[i]);
			for (long k = 0; k < got; k++)
				sum = sum * 31 + buffers[i][k];
		}
	}
	printf("%08x\n", sum);
	return 0;
}
