#!/bin/sh
# Stands in for DKMS: puts placeholders of the kernel modules where DKMS would put the modules that it built.
#   dkms install|remove
set -eu

source=/usr/lib/nvidia-simulated/modules
target=/lib/modules/$(uname -r)/updates/dkms

[ -d "/lib/modules/$(uname -r)" ] || exit 1
case $1 in
install)
	mkdir -p "$target" 2>/dev/null && cp "$source"/*.ko "$target" 2>/dev/null || exit 1
	;;
remove)
	rm -f "$target/nvidia.ko" "$target/nvidia-uvm.ko" "$target/nvidia-modeset.ko" "$target/nvidia-drm.ko"
	;;
esac
depmod -a
