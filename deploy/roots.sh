#!/bin/sh
# roots.sh DIR makes root file systems below DIR from Debian's packages, for `deploy/suite.sh systems`: debian, made by debootstrap, and musl,
# which has one program, no shell and musl as its only C library. It runs as root and needs debootstrap and musl-tools.
set -eu
dir=$1
for program in debootstrap musl-gcc dpkg-deb; do
	command -v "$program" > /dev/null || { echo "roots.sh: $program is missing; install the Debian packages debootstrap and musl-tools" >&2; exit 1; }
done
mkdir -p "$dir"
cd "$dir"
if [ ! -e debian/.complete ]; then
	rm -rf debian
	debootstrap --variant=minbase bookworm debian
	(cd debian/srv && apt-get download busybox-static)
	mv debian/srv/busybox-static_*.deb debian/srv/busybox.deb
	rm -rf debian/dev/* # a sandbox has devices of its own, and the tests import regular files
	touch debian/.complete
fi
rm -rf musl
mkdir -p musl/etc musl/usr/bin packages
(cd packages && [ -e musl_*.deb ] || apt-get download musl)
dpkg-deb -x packages/musl_*.deb musl
printf 'root:x:0:0::/:/bin/sh\napp:x:1500:1500::/:/bin/sh\n' > musl/etc/passwd
cat > uname.c <<'PROGRAM'
#include <stdio.h>
#include <sys/utsname.h>
int main(void) { struct utsname u; return uname(&u) || puts(u.sysname) < 0; }
PROGRAM
musl-gcc -o musl/usr/bin/uname uname.c
