#!/bin/sh
# The simulated NVIDIA kernel module: modprobe runs this instead of loading one (modprobe.d/nvidia-simulated.conf).
#   module load|unload [--force] nvidia|nvidia_uvm|nvidia_modeset|nvidia_drm
set -eu

lib=/usr/lib/nvidia-simulated
run=/run/nvidia-simulated
state=$run/state.json
silicon=/etc/gpusim/gpus.json
pci=/sys/bus/pci/devices
# Which GPUs are in MIG mode is kept by the GPUs themselves.
mig=/var/lib/nvidia-simulated/mig

fail() {
	echo "modprobe: $1" >&2
	exit 1
}

lock() {
	mkdir -p "$run"
	exec 9>"$run/lock"
	flock 9
}

is_loaded() {
	[ -f "$run/version" ]
}

# Faults of a version, which `python -m lab fault` switches on.
is_broken() {
	grep -qx "$1 $version" "$run/broken" 2>/dev/null
}

field() {
	sed -n "s/.*\"$1\": \"\{0,1\}\([^\",}]*\).*/\1/p"
}

node() {
	[ -e "/dev/$1" ] || mknod -m 0666 "/dev/$1" c "$2" "$3"
}

# The kernel's own file systems can't be written to, only covered, and only from inside of the node.
cover() {
	mount --bind "$1" "$2"
	echo "$2" >>"$run/mounts"
}

# A program may be reading one of these files at this moment, which would not keep a real module loaded.
uncover_all() {
	[ -f "$run/mounts" ] || return 0
	while read -r place; do umount --lazy "$place"; done <"$run/mounts"
	rm "$run/mounts"
}

has_gpu() {
	for entry in "$pci"/*; do
		[ -r "$entry/vendor" ] && [ "$(cat "$entry/vendor")" = 0x10de ] || continue
		case $(cat "$entry/class") in 0x03*) return 0 ;; esac
	done
	return 1
}

# What the driver tells below /proc/driver/nvidia.
write_proc() {
	case $flavor in
	open) kernel="NVIDIA UNIX Open Kernel Module for x86_64" ;;
	*) kernel="NVIDIA UNIX x86_64 Kernel Module" ;;
	esac
	mkdir -p "$run/proc/nvidia/gpus"
	printf 'NVRM version: %s  %s  Release Build  (simulated)\nGCC version:  simulated\n' "$kernel" "$version" \
		>"$run/proc/nvidia/version"
	grep '"bus_id"' "$silicon" | while read -r gpu; do
		gpu() { echo "$gpu" | field "$1"; }
		mkdir -p "$run/proc/nvidia/gpus/$(gpu bus_id)"
		cat >"$run/proc/nvidia/gpus/$(gpu bus_id)/information" <<EOF
Model: 		 $(gpu name)
IRQ:   		 0
GPU UUID: 	 $(gpu uuid)
Video BIOS: 	 $(gpu vbios)
Bus Type: 	 PCIe
DMA Size: 	 47 bits
DMA Mask: 	 0x7fffffffffff
Bus Location: 	 $(gpu bus_id)
Device Minor: 	 $(gpu minor)
GPU Firmware: 	 $version
GPU Excluded:	 No
EOF
	done
	write_mig_minors
	cover "$run/proc" /proc/driver
}

# Every capability that a GPU can ever have is listed from the start, whatever instances there are.
write_mig_minors() {
	mkdir -p "$run/proc/nvidia-caps"
	grep '"mig_capable": true' "$silicon" | field minor | awk '
		BEGIN { print "config 1\nmonitor 2" }
		{
			for (gi = 0; gi < 15; gi++) {
				first = 3 + $1 * 135 + gi * 9
				print "gpu" $1 "/gi" gi "/access " first
				for (ci = 0; ci < 8; ci++) print "gpu" $1 "/gi" gi "/ci" ci "/access " first + 1 + ci
			}
		}' >"$run/proc/nvidia-caps/mig-minors"
}

# A GPU comes up in the mode that was last asked for, and without instances.
write_mig() {
	mkdir -p "${mig%/*}"
	[ -e "$mig" ] || : >"$mig"
	awk '$1 == "mode" { print "mode", $2, $4, $4 } END { print "end" }' "$mig" >"$run/mig.new"
	cat "$run/mig.new" >"$mig"
	rm "$run/mig.new"
}

# NVIDIA's tools learn major numbers from /proc/devices; nvidia-uvm gets one that no driver of the machine below has.
write_devices() {
	major=511
	while grep -q "^ *$major " /proc/devices; do major=$((major - 1)); done
	caps=$((major - 1))
	while grep -q "^ *$caps " /proc/devices; do caps=$((caps - 1)); done
	awk -v uvm="$major" -v caps="$caps" '{ print } /^Character devices:/ {
		print "195 nvidia\n195 nvidia-frontend\n195 nvidia-modeset\n195 nvidiactl"
		print uvm " nvidia-uvm\n" caps " nvidia-caps" }' \
		/proc/devices >"$run/devices"
	cover "$run/devices" /proc/devices
}

# The state stays one file, also over an unload: containers that were given it follow.
write_state() {
	{
		printf '{"driver": "%s", "faults": [],\n"silicon":\n' "$1"
		if [ -n "$1" ]; then cat "$silicon"; else echo '{"gpus": []}'; fi
		echo '}'
	} >"$run/state.new"
	cat "$run/state.new" >"$state"
	rm "$run/state.new"
}

# nvidia-cdi-refresh looks for nvidia.ko in modules.dep; where that can't be written, a copy covers it.
list_module() {
	modules=/lib/modules/$(uname -r)
	[ -e "$modules/modules.dep" ] || return 0
	! grep -q '/nvidia\.ko' "$modules/modules.dep" || return 0
	! "$lib/dkms" install || return 0
	{ cat "$modules/modules.dep" && echo "updates/dkms/nvidia.ko:"; } >"$run/modules.dep"
	cover "$run/modules.dep" "$modules/modules.dep"
}

load_nvidia() {
	lock
	! is_loaded || return 0
	if ! has_gpu || [ ! -r "$silicon" ]; then fail "ERROR: could not insert 'nvidia': No such device"; fi
	[ -r "$lib/kernel" ] || fail "FATAL: Module nvidia not found in directory /lib/modules/$(uname -r)"
	# shellcheck source=/dev/null
	. "$lib/kernel"
	! is_broken dkms || fail "FATAL: Module nvidia not found in directory /lib/modules/$(uname -r)"
	! is_broken load || fail "ERROR: could not insert 'nvidia': Invalid argument"
	uncover_all
	list_module
	write_proc
	write_devices
	write_state "$version"
	# nvidia-ctk gives every gsp*.bin of the driver to containers: so the state gets there by itself.
	firmware=/lib/firmware/nvidia/$version
	mkdir -p "$firmware"
	[ -e "$firmware/gsp_gpusim.bin" ] || : >"$firmware/gsp_gpusim.bin"
	cover "$state" "$firmware/gsp_gpusim.bin"
	write_mig
	[ -e "$firmware/gsp_mig.bin" ] || : >"$firmware/gsp_mig.bin"
	cover "$mig" "$firmware/gsp_mig.bin"
	mkdir -p /dev/nvidia-caps
	node nvidia-caps/nvidia-cap1 "$caps" 1
	node nvidia-caps/nvidia-cap2 "$caps" 2
	for minor in $(field minor <"$silicon"); do node "nvidia$minor" 195 "$minor"; done
	node nvidiactl 195 255
	ln -sf "$lib/runc" /usr/local/sbin/runc
	echo "$version" >"$run/version"
}

unload_nvidia() {
	lock
	is_loaded || return 0
	version=$(cat "$run/version")
	if [ "$1" != --force ]; then
		[ ! -e /dev/nvidia-uvm ] || fail "FATAL: Module nvidia is in use by: nvidia_uvm"
		[ ! -e /dev/nvidia-modeset ] || fail "FATAL: Module nvidia is in use by: nvidia_modeset"
		flock --nonblock --exclusive "$state" true || fail "FATAL: Module nvidia is in use."
	fi
	write_state ""
	rm -rf /dev/nvidia-caps
	for name in /dev/nvidia*; do [ ! -c "$name" ] || rm "$name"; done
	uncover_all
	rm -f "/lib/firmware/nvidia/$version/gsp_gpusim.bin" "/lib/firmware/nvidia/$version/gsp_mig.bin"
	rm -f /usr/local/sbin/runc
	rm -rf "$run/proc" "$run/devices" "$run/version"
}

action=$1
shift
force=
[ "${1:-}" != --force ] || { force=--force && shift; }
case "$action $1" in
"load nvidia") load_nvidia ;;
"load nvidia_uvm")
	modprobe nvidia
	major=$(awk '$2 == "nvidia-uvm" { print $1; exit }' "$run/devices")
	node nvidia-uvm "$major" 0
	node nvidia-uvm-tools "$major" 1
	;;
"load nvidia_modeset")
	modprobe nvidia
	node nvidia-modeset 195 254
	;;
"load nvidia_drm") modprobe nvidia_modeset ;;
"unload nvidia") unload_nvidia "$force" ;;
"unload nvidia_uvm") rm -f /dev/nvidia-uvm /dev/nvidia-uvm-tools ;;
"unload nvidia_modeset") rm -f /dev/nvidia-modeset ;;
"unload nvidia_drm") ;;
*) fail "FATAL: Module $1 not found" ;;
esac
