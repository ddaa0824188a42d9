// Proves numbers and sizes of tables/ioctls.def against the kernel's headers: every one of them, or the test fails.
// Runs in: a program of its own, started by tests/unit/test_table_c.py.
// May call: libc.
// Owns: the pairing of a request with the C type behind argument 3.
#include "syscall/effects.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <asm/termios.h>
#include <linux/fs.h>
#include <linux/if.h>
#include <linux/random.h>
#include <linux/rtc.h>
#include <linux/sockios.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/time.h>

static int failures;
static int proven;

#define FAIL(...) (printf(__VA_ARGS__), failures++)

// The table as the test sees it: the names, and how many there are.
#define IOCTL(name, ...) #name,
static const char *const names[] = {
#include "tables/ioctls.def"
};
#undef IOCTL

static void prove(const char *name, unsigned long request, int kind, size_t size)
{
	const struct gr_ioctl *row = gr_ioctl_find((uint32_t)request);

	proven++;
	if (!row)
		FAIL("%s: %#lx is not in the table\n", name, request);
	else if (row->fx.kind != kind || (size && row->fx.scale != size))
		FAIL("%s: kind %d and %u bytes in the table, %d and %zu here\n", name, row->fx.kind, row->fx.scale, kind, size);
	else if (kind != GR_FX_NONE && kind != GR_FX_MAKES && row->fx.arg != 3)
		FAIL("%s: the buffer is argument %d\n", name, row->fx.arg);
}

#define VALUE(request) prove(#request, request, GR_FX_NONE, 0)
#define READS(request, type) prove(#request, request, GR_FX_IN, sizeof(type))
#define WRITES(request, type) prove(#request, request, GR_FX_OUT, sizeof(type))
#define BOTH(request, type) prove(#request, request, GR_FX_INOUT, sizeof(type))

static void prove_tty(void)
{
	WRITES(TCGETS, struct termios);
	READS(TCSETS, struct termios);
	READS(TCSETSW, struct termios);
	READS(TCSETSF, struct termios);
	WRITES(TCGETA, struct termio);
	READS(TCSETA, struct termio);
	READS(TCSETAW, struct termio);
	READS(TCSETAF, struct termio);
	WRITES(TCGETS2, struct termios2);
	READS(TCSETS2, struct termios2);
	READS(TCSETSW2, struct termios2);
	READS(TCSETSF2, struct termios2);
	VALUE(TCSBRK);
	VALUE(TCSBRKP);
	VALUE(TCXONC);
	VALUE(TCFLSH);
	VALUE(TIOCEXCL);
	VALUE(TIOCNXCL);
	WRITES(TIOCGEXCL, int);
	VALUE(TIOCSCTTY);
	VALUE(TIOCNOTTY);
	WRITES(TIOCGPGRP, int);
	READS(TIOCSPGRP, int);
	WRITES(TIOCGSID, int);
	WRITES(TIOCOUTQ, int);
	READS(TIOCSTI, char);
	WRITES(TIOCGWINSZ, struct winsize);
	READS(TIOCSWINSZ, struct winsize);
	WRITES(TIOCMGET, int);
	READS(TIOCMBIS, int);
	READS(TIOCMBIC, int);
	READS(TIOCMSET, int);
	WRITES(TIOCGSOFTCAR, int);
	READS(TIOCSSOFTCAR, int);
	READS(TIOCPKT, int);
	WRITES(TIOCGPKT, int);
	READS(TIOCSETD, int);
	WRITES(TIOCGETD, int);
	VALUE(TIOCSBRK);
	VALUE(TIOCCBRK);
	WRITES(TIOCGPTN, unsigned);
	READS(TIOCSPTLCK, int);
	WRITES(TIOCGPTLCK, int);
	WRITES(TIOCGDEV, unsigned);
	VALUE(TIOCSIG);
	VALUE(TIOCVHANGUP);
	prove("TIOCGPTPEER", TIOCGPTPEER, GR_FX_MAKES, 0);
}

static void prove_files(void)
{
	WRITES(FIONREAD, int);
	READS(FIONBIO, int);
	VALUE(FIONCLEX);
	VALUE(FIOCLEX);
	READS(FIOASYNC, int);
	WRITES(FIOQSIZE, long long);
	BOTH(FIBMAP, int);
	WRITES(FIGETBSZ, int);
	VALUE(FICLONE);
	READS(FICLONERANGE, struct file_clone_range);
	WRITES(FS_IOC_GETFLAGS, int); // the number says long, the kernel stores an int
	READS(FS_IOC_SETFLAGS, int);
	WRITES(FS_IOC_FSGETXATTR, struct fsxattr);
	READS(FS_IOC_FSSETXATTR, struct fsxattr);
}

static void prove_sockets(void)
{
	READS(FIOSETOWN, int);
	READS(SIOCSPGRP, int);
	WRITES(FIOGETOWN, int);
	WRITES(SIOCGPGRP, int);
	WRITES(SIOCATMARK, int);
	WRITES(SIOCGSTAMP, struct timeval);
	WRITES(SIOCGSTAMPNS, struct timespec);
	BOTH(SIOCGIFNAME, struct ifreq);
	BOTH(SIOCGIFFLAGS, struct ifreq);
	READS(SIOCSIFFLAGS, struct ifreq);
	BOTH(SIOCGIFADDR, struct ifreq);
	BOTH(SIOCGIFDSTADDR, struct ifreq);
	BOTH(SIOCGIFBRDADDR, struct ifreq);
	BOTH(SIOCGIFNETMASK, struct ifreq);
	BOTH(SIOCGIFMETRIC, struct ifreq);
	BOTH(SIOCGIFMTU, struct ifreq);
	BOTH(SIOCGIFHWADDR, struct ifreq);
	BOTH(SIOCGIFINDEX, struct ifreq);
	BOTH(SIOCGIFTXQLEN, struct ifreq);
	BOTH(SIOCGIFMAP, struct ifreq);
}

static void prove_devices(void)
{
	READS(BLKROSET, int);
	WRITES(BLKROGET, int);
	VALUE(BLKRRPART);
	WRITES(BLKGETSIZE, unsigned long);
	VALUE(BLKFLSBUF);
	VALUE(BLKRASET);
	WRITES(BLKRAGET, long);
	WRITES(BLKSSZGET, int);
	WRITES(BLKBSZGET, int); // the number says size_t, the kernel stores an int
	READS(BLKBSZSET, int);
	WRITES(BLKGETSIZE64, uint64_t);
	READS(BLKDISCARD, uint64_t[2]);
	WRITES(BLKIOMIN, unsigned);
	WRITES(BLKIOOPT, unsigned);
	WRITES(BLKALIGNOFF, int);
	WRITES(BLKPBSZGET, unsigned);
	WRITES(BLKDISCARDZEROES, unsigned);
	WRITES(BLKROTATIONAL, unsigned short);
	READS(BLKZEROOUT, uint64_t[2]);
	WRITES(RNDGETENTCNT, int);
	READS(RNDADDTOENTCNT, int);
	WRITES(RTC_RD_TIME, struct rtc_time);
}

int main(void)
{
	prove_tty();
	prove_files();
	prove_sockets();
	prove_devices();
	if (proven != (int)(sizeof names / sizeof *names))
		FAIL("%d requests are proven, the table has %zu\n", proven, sizeof names / sizeof *names);
	if (gr_ioctl_find(0xffffffff))
		FAIL("a request that does not exist was found\n");
	return failures != 0;
}
