# The package's own list file names NVIDIA's server, which is the depot here.
DEBIAN_FRONTEND=noninteractive dpkg --install "$PACKAGES"/*.deb
sed -i "s,https://developer.download.nvidia.com,$DEPOT/developer.download.nvidia.com," /etc/apt/sources.list.d/cuda-*.list
rm -r "$PACKAGES"
