# Lists of long ago: each package in an older version, whose file the archive has removed since, and none of the kernels'
# headers, which are named after a version. apt keeps a list whose checksum its stored Release file has, so that is spoilt.
apt-get --quiet update
cd /var/lib/apt/lists
for list in *_Packages; do
	awk 'BEGIN { RS = ""; ORS = "\n\n" } !/^Package: linux-headers-/' "$list" |
		sed -E -e 's/^(Version: .*)$/\1~old/' -e 's/^(Filename: .*)_([a-z0-9]+)\.deb$/\1~old_\2.deb/' >"$list.new"
	mv "$list.new" "$list"
done
find . -name '*Release' -exec sed -i -E 's/^ [0-9a-f]{64} / 0000000000000000000000000000000000000000000000000000000000000000 /' {} +
find . -type f -exec touch --date=2022-01-01 {} +
touch --date=2022-01-01 .
rm -f /var/cache/apt/pkgcache.bin /var/cache/apt/srcpkgcache.bin
