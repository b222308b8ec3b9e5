#!/bin/sh
# Stands before runc while the simulated driver is loaded. What a kernel module tells below /proc/driver is in every proc
# file system; the simulated one has to bind it into each container that is given a GPU, by a hook.
set -eu
bundle=
previous=
for argument in "$@"; do
	case $previous in --bundle | -b) bundle=$argument ;; esac
	previous=$argument
done
config=$bundle/config.json
if [ -n "$bundle" ] && grep -q '/dev/nvidiactl' "$config"; then
	sed -i 's|"createContainer":\[|&{"path":"/usr/lib/nvidia-simulated/proc-hook"},|' "$config"
fi
exec /usr/bin/runc "$@"
