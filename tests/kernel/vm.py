"""Another kernel: Debian's, in qemu without acceleration, on this machine's own files, which it sees and cannot change.

Runs in: make kernel. May call: apt-get download, dpkg-deb, qemu, virtiofsd.
Owns: build/kernel: the kernel, and the first programs that run below it.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import time
from pathlib import Path

from harness import BUILD, ROOT

HERE = BUILD / "kernel"
PACKAGE = "linux-image-cloud-amd64"
VIRTIOFSD = "/usr/lib/qemu/virtiofsd"
MODULES = tuple(
    "drivers/virtio/virtio drivers/virtio/virtio_ring drivers/virtio/virtio_pci_modern_dev"
    " drivers/virtio/virtio_pci_legacy_dev drivers/virtio/virtio_pci fs/fuse/fuse fs/fuse/virtiofs"
    " fs/overlayfs/overlay".split()
)
"""In the order in which they need each other."""
MEMORY = "4G"

INIT = """\
#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc none /proc; $b mount -t devtmpfs none /dev
for module in MODULES; do $b insmod /m/$module.ko; done
$b mkdir -p /host /over /r
$b mount -t virtiofs -o ro host /host && $b mount -t tmpfs none /over && $b mkdir /over/up /over/work &&
$b mount -t overlay -o lowerdir=/host,upperdir=/over/up,workdir=/over/work none /r || $b poweroff -f
$b mount --move /dev /r/dev; $b mount --move /proc /r/proc; $b mount -t sysfs none /r/sys
$b mkdir -p /r/dev/shm /r/dev/pts
for place in run tmp dev/shm; do $b mount -t tmpfs none /r/$place; done
$b mount -t devpts none /r/dev/pts
exec $b switch_root /r /bin/sh GUEST
"""
GUEST = """\
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 PYTHONPATH=tests:. GDBRR_OWN_CLOCK=1
ip link set lo up
cd 'ROOT' && .venv/bin/python -m kernel.guest >/dev/ttyS1 2>&1
echo o >/proc/sysrq-trigger
sleep 60
"""


def missing() -> str:
    for tool in ("qemu-system-x86_64", VIRTIOFSD, "apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            return f"{tool} is not installed: apt-get install qemu-system-x86"
    return ""


def quiet(*words: str | Path, cwd: Path | None = None) -> str:
    return subprocess.run(
        words, cwd=cwd, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True
    ).stdout


def fetched() -> Path:
    """Kernel and busybox, unpacked."""
    tree = HERE / "tree"
    if not tree.exists():
        HERE.mkdir(parents=True, exist_ok=True)
        words = quiet("apt-cache", "depends", PACKAGE).split()
        image = next(word for word in words if word.startswith("linux-image-") and word != PACKAGE)
        quiet("apt-get", "-qq", "download", image, "busybox-static", cwd=HERE)
        fresh = HERE / "tree.new"
        for package in HERE.glob("*.deb"):
            quiet("dpkg-deb", "-x", package, fresh)
        fresh.rename(tree)
    return tree


def first_files(tree: Path) -> Path:
    """What the kernel starts with: the modules that make this machine's files appear."""
    top, busybox = HERE / "first", tree / "bin" / "busybox"
    shutil.rmtree(top, ignore_errors=True)
    for name in ("bin", "m", "dev", "proc"):
        (top / name).mkdir(parents=True)
    shutil.copy(busybox, top / "bin")
    modules = next((tree / "lib" / "modules").iterdir()) / "kernel"
    for name in MODULES:
        shutil.copy(modules / f"{name}.ko", top / "m")
    guest = HERE / "guest.sh"
    guest.write_text(GUEST.replace("ROOT", str(ROOT)))
    names = " ".join(Path(name).name for name in MODULES)
    (top / "init").write_text(INIT.replace("MODULES", names).replace("GUEST", str(guest)))
    (top / "init").chmod(0o755)
    paths = "\n".join(str(path.relative_to(top)) for path in [top, *top.rglob("*")])
    packed = subprocess.run(
        [busybox, "cpio", "-o", "-H", "newc"], cwd=top, input=paths.encode(), capture_output=True, check=True
    ).stdout
    (HERE / "first.gz").write_bytes(gzip.compress(packed, 1))
    return HERE / "first.gz"


def run(limit: float) -> str:
    """What kernel/guest.py says there."""
    tree, socket, said = fetched(), HERE / "files", HERE / "said"
    first = first_files(tree)
    # Without SMAP: qemu 7.2 lets `iretq` of a program read its stack with the rights of the kernel, which may not.
    words = ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max,-smap", "-m", MEMORY, "-smp", "2"]
    words += ["-display", "none", "-no-reboot", "-nic", "none", "-rtc", "base=utc"]
    words += ["-kernel", str(next((tree / "boot").glob("vmlinuz-*"))), "-initrd", str(first)]
    words += ["-append", "console=ttyS0 panic=-1", "-serial", f"file:{HERE / 'console'}", "-serial", f"file:{said}"]
    words += ["-object", f"memory-backend-memfd,id=memory,size={MEMORY},share=on", "-numa", "node,memdev=memory"]
    words += ["-chardev", f"socket,id=files,path={socket}", "-device", "vhost-user-fs-pci,chardev=files,tag=host"]
    socket.unlink(missing_ok=True)
    serve = [VIRTIOFSD, f"--socket-path={socket}", "-o", "source=/", "-o", "sandbox=chroot", "-o", "log_level=err"]
    with subprocess.Popen(serve, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as files:
        try:
            while not socket.exists() and files.poll() is None:
                time.sleep(0.01)
            subprocess.run(
                words, stdin=subprocess.DEVNULL, check=True, timeout=limit, env={**os.environ, "TMPDIR": "/tmp"}
            )
        finally:
            files.terminate()
    return said.read_text(errors="replace")
