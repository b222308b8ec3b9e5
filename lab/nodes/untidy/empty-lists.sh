# As cloud images and golden images are made: rm -rf /var/lib/apt/lists/*
find /var/lib/apt/lists ! -type d -delete
rm -f /var/cache/apt/pkgcache.bin /var/cache/apt/srcpkgcache.bin
