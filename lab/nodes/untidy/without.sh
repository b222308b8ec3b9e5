export DEBIAN_FRONTEND=noninteractive
for package in $PACKAGES; do
	if dpkg-query --show "$package" >/dev/null 2>&1; then
		dpkg --purge --force-depends "$package"
	fi
done
