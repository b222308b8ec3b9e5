#!/bin/sh
# Simulated: keeps the driver in use, as the real daemon does, so that it can't be unloaded under it.
state=/run/nvidia-simulated/state.json
[ -s "$state" ] || { echo "Failed to query NVIDIA devices. Please ensure that the NVIDIA driver is loaded." >&2; exit 1; }
exec flock --shared "$state" sleep infinity
