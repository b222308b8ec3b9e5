cd "$PACKAGES"
newest=$(printf '%s\n' nvidia-container-toolkit_*.deb | sort --version-sort | tail --lines=1)
find . -name '*.deb' ! -name "*_${newest#*_}" -delete
for package in *.deb; do
	dpkg-deb --raw-extract "$package" tree
	version=$(sed -n 's/^Version: //p' tree/DEBIAN/control)
	newer=$(printf '%s' "$version" | sed -E 's/^([0-9]+\.[0-9]+)\.[0-9]+/\1.99/')
	sed -i "s/${version//./\\.}/$newer/g" tree/DEBIAN/control
	dpkg-deb --build --root-owner-group tree "newer-$package" >/dev/null
	rm -r tree "$package"
done
DEBIAN_FRONTEND=noninteractive apt-get --quiet install --yes --no-install-recommends ./*.deb
rm -r "$PACKAGES"
