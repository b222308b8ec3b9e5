#!/bin/sh
# Stands in for DKMS: puts placeholders of the kernel modules where DKMS would put the modules that it built.
#   dkms install|remove|status
set -eu

lib=/usr/lib/nvidia-simulated
kernel=$(uname -r)
target=/lib/modules/$kernel/updates/dkms
version=
# shellcheck source=/dev/null
[ ! -r "$lib/kernel" ] || . "$lib/kernel"

case $1 in
status)
	if [ -e "$target/nvidia.ko" ]; then
		echo "nvidia/$version, $kernel, x86_64: installed"
	else
		echo "nvidia/$version: added"
	fi
	exit 0
	;;
install)
	if grep -qx "dkms $version" /run/nvidia-simulated/broken 2>/dev/null; then
		build=/var/lib/dkms/nvidia/$version/build
		mkdir -p "$build"
		cat >"$build/make.log" <<EOF
DKMS make.log for nvidia/$version for kernel $kernel (x86_64)
$build/nvidia/nv-mmap.c:100:5: error: implicit declaration of function 'simulated_fault'
make[2]: *** [nvidia/nv-mmap.o] Error 1
make: *** [Makefile:80: modules] Error 2
EOF
		echo "Error! Bad return status for module build on kernel: $kernel (x86_64)" >&2
		echo "Consult $build/make.log for more information." >&2
		exit 10
	fi
	[ -d "/lib/modules/$kernel" ] || exit 1
	mkdir -p "$target" 2>/dev/null && cp "$lib/modules"/*.ko "$target" 2>/dev/null || exit 1
	;;
remove)
	[ -d "/lib/modules/$kernel" ] || exit 1
	rm -f "$target/nvidia.ko" "$target/nvidia-uvm.ko" "$target/nvidia-modeset.ko" "$target/nvidia-drm.ko"
	[ -z "$version" ] || rm -rf "/var/lib/dkms/nvidia/$version"
	;;
esac
depmod -a
