#!/bin/sh
# Simulated: loads the kernel modules; they bring their device nodes.
set -eu
case " $* " in *" -h "* | *" --help "*) echo "nvidia-modprobe [-u] [-m] [-c MINOR] (simulated)" && exit 0 ;; esac
modprobe nvidia
for option in "$@"; do
	case $option in
	-u | --unified-memory) modprobe nvidia_uvm ;;
	-m | --modeset) modprobe nvidia_modeset ;;
	esac
done
