#!/bin/sh
# Simulated: checks what the real one checks before it serves, version and NVSwitches, then waits.
version=@VERSION@
[ "$1" != --version ] || { echo "Fabric Manager version is : $version"; exit 0; }
loaded=$(sed -n 's/.*  \([0-9.]*\)  Release Build.*/\1/p' /proc/driver/nvidia/version 2>/dev/null)
if [ -n "$loaded" ] && [ "$loaded" != "$version" ]; then
	echo "fabric manager NVIDIA GPU driver interface version $version don't match with driver version $loaded." \
		"Please update with matching NVIDIA driver package." >&2
	exit 1
fi
if [ -z "$(ls /proc/driver/nvidia-nvswitch/devices 2>/dev/null)" ]; then
	echo "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do" \
		"[NV_WARN_NOTHING_TO_DO]" >&2
	exit 1
fi
exec sleep infinity
