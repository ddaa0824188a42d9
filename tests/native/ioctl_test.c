// Proves numbers and sizes of tables/ioctls.def against the kernel's headers: every one of them, or the test fails.
// Runs in: a program of its own, started by tests/unit/test_table_c.py.
// May call: libc.
// Owns: the pairing of a request with the C type behind argument 3.
#include "syscall/effects.h"

#include <asm/ioctls.h>
#include <asm/termbits.h>
#include <asm/termios.h>
#include <linux/btrfs.h>
#include <linux/cdrom.h>
#include <linux/fb.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <linux/fsmap.h>
#include <linux/fsverity.h>
#include <linux/i2c-dev.h>
#include <linux/i2c.h>
#include <linux/if.h>
#include <linux/if_arp.h>
#include <linux/kd.h>
#include <linux/kvm.h>
#include <linux/nsfs.h>
#include <linux/random.h>
#include <linux/rtc.h>
#include <linux/serial.h>
#include <linux/sockios.h>
#include <linux/tty.h>
#include <linux/usbdevice_fs.h>
#include <linux/vhost.h>
#include <scsi/sg.h>
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

// A structure and, behind it, as many items as a number in it says.
#define FLEX(request, type, count, item) \
	prove(#request, request, GR_FX_INOUT, sizeof(item) << 16 | sizeof(type)); \
	prove_place(#request, request, offsetof(type, count))
// A structure, and a buffer that it leads to; or whatever it leads to.
#define BEHIND(request, type, pointer, length) \
	prove(#request, request, GR_FX_BEHIND, offsetof(type, length) << 16 | sizeof(type)); \
	prove_place(#request, request, offsetof(type, pointer))
#define DEEP(request, type) prove(#request, request, GR_FX_COMPARE, sizeof(type))
#define REFUSED(request) prove(#request, request, GR_FX_REFUSED, 0)

static void prove_place(const char *name, unsigned long request, size_t place)
{
	const struct gr_ioctl *row = gr_ioctl_find((uint32_t)request);

	if (row && row->fx.len_arg != place)
		FAIL("%s: byte %d in the table, %zu here\n", name, row->fx.len_arg, place);
}

// What older headers do not have.
struct page_map_scan { uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages, category_masks[4]; };
struct mapping_query {
	uint64_t size, query_flags, query_addr, vma_start, vma_end, vma_flags, vma_page_size, vma_offset, inode;
	uint32_t dev_major, dev_minor, vma_name_size, build_id_size;
	uint64_t vma_name_addr, build_id_addr;
};
#ifndef PAGEMAP_SCAN
#define PAGEMAP_SCAN _IOWR('f', 16, struct page_map_scan)
#endif
#ifndef PROCMAP_QUERY
#define PROCMAP_QUERY _IOWR('f', 17, struct mapping_query)
#endif
#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0)
#endif
#ifndef FS_IOC_READ_VERITY_METADATA
#define FS_IOC_READ_VERITY_METADATA _IOWR('f', 135, struct fsverity_read_metadata_arg)
#endif

static void prove_tty(void)
{
	BOTH(TIOCLINUX, char);
	VALUE(TIOCCONS);
	WRITES(TIOCGSERIAL, struct serial_struct);
	READS(TIOCSSERIAL, struct serial_struct);
	WRITES(TIOCGRS485, struct serial_rs485);
	BOTH(TIOCSRS485, struct serial_rs485);
	WRITES(TIOCGLCKTRMIOS, struct termios);
	READS(TIOCSLCKTRMIOS, struct termios);
	WRITES(TIOCSERGETLSR, int);
	VALUE(TIOCMIWAIT);
	WRITES(TIOCGICOUNT, struct serial_icounter_struct);
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
	WRITES(FS_IOC_GETVERSION, int); // as with the flags
	READS(FS_IOC_SETVERSION, int);
	FLEX(FS_IOC_FIEMAP, struct fiemap, fm_extent_count, struct fiemap_extent);
	FLEX(FIDEDUPERANGE, struct file_dedupe_range, dest_count, struct file_dedupe_range_info);
	FLEX(FS_IOC_GETFSMAP, struct fsmap_head, fmh_count, struct fsmap);
	DEEP(FS_IOC_READ_VERITY_METADATA, struct fsverity_read_metadata_arg);
	DEEP(BTRFS_IOC_INO_PATHS, struct btrfs_ioctl_ino_path_args);
	DEEP(BTRFS_IOC_LOGICAL_INO, struct btrfs_ioctl_logical_ino_args);
	DEEP(BTRFS_IOC_LOGICAL_INO_V2, struct btrfs_ioctl_logical_ino_args);
	DEEP(PAGEMAP_SCAN, struct page_map_scan);
	DEEP(PROCMAP_QUERY, struct mapping_query);
	prove("NS_GET_USERNS", NS_GET_USERNS, GR_FX_MAKES, 0);
	prove("NS_GET_PARENT", NS_GET_PARENT, GR_FX_MAKES, 0);
	VALUE(NS_GET_NSTYPE);
	WRITES(NS_GET_OWNER_UID, unsigned);
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
	BEHIND(SIOCGIFCONF, struct ifconf, ifc_buf, ifc_len);
	BOTH(SIOCGIFSLAVE, struct ifreq);
	BOTH(SIOCGIFPFLAGS, struct ifreq);
	DEEP(SIOCETHTOOL, struct ifreq);
	BOTH(SIOCGMIIPHY, struct ifreq);
	BOTH(SIOCGMIIREG, struct ifreq);
	DEEP(SIOCWANDEV, struct ifreq);
	WRITES(SIOCOUTQNSD, int);
	prove("SIOCGSKNS", SIOCGSKNS, GR_FX_MAKES, 0);
	BOTH(SIOCGARP, struct arpreq);
	DEEP(SIOCBONDSLAVEINFOQUERY, struct ifreq);
	DEEP(SIOCBONDINFOQUERY, struct ifreq);
	DEEP(SIOCSHWTSTAMP, struct ifreq);
	DEEP(SIOCGHWTSTAMP, struct ifreq);
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
	DEEP(SG_IO, struct sg_io_hdr);
	DEEP(CDROM_SEND_PACKET, struct cdrom_generic_command);
	DEEP(CDROMREADAUDIO, struct cdrom_read_audio);
	DEEP(GIO_FONTX, struct consolefontdesc);
	DEEP(GIO_UNIMAP, struct unimapdesc);
	DEEP(KDFONTOP, struct console_font_op);
	DEEP(FBIOGETCMAP, struct fb_cmap);
	DEEP(I2C_SMBUS, struct i2c_smbus_ioctl_data);
	REFUSED(I2C_RDWR);
	REFUSED(USBDEVFS_SUBMITURB);
	REFUSED(USBDEVFS_REAPURB);
	REFUSED(USBDEVFS_REAPURBNDELAY);
	REFUSED(VHOST_SET_OWNER);
	REFUSED(KVM_CREATE_VCPU);
	REFUSED(USERFAULTFD_IOC_NEW);
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
