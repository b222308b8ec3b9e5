# Docker as its own guide installs it, with a containerd that is newer than any in the repository. The engine is a name.
. /etc/os-release
cd "$PACKAGES"
package=$(printf '%s\n' containerd.io_*.deb | sort --version-sort | tail --lines=1)
dpkg-deb --raw-extract "$package" tree
sed -i -E 's/^(Version: [0-9]+\.[0-9]+)\.[0-9]+/\1.99/' tree/DEBIAN/control
dpkg-deb --build --root-owner-group tree containerd-newer.deb >/dev/null
for name in docker-ce docker-ce-cli; do
	mkdir -p "$name/DEBIAN"
	printf 'Package: %s\nVersion: 5:29.9.9-1~%s.%s~%s\nArchitecture: amd64\nMaintainer: the lab\nDepends: %s\nDescription: %s of the lab\n' \
		"$name" "$ID" "$VERSION_ID" "$VERSION_CODENAME" "$([ "$name" = docker-ce ] && echo containerd.io, docker-ce-cli || echo libc6)" "$name" \
		>"$name/DEBIAN/control"
	dpkg-deb --build --root-owner-group "$name" "$name.deb" >/dev/null
done
export DEBIAN_FRONTEND=noninteractive
apt-get --quiet update
apt-get --quiet install --yes --no-install-recommends ./containerd-newer.deb ./docker-ce.deb ./docker-ce-cli.deb
printf 'deb [arch=amd64 signed-by=/etc/apt/keyrings/docker.asc] %s/download.docker.com/linux/%s %s stable\n' \
	"$DEPOT" "$ID" "$VERSION_CODENAME" >/etc/apt/sources.list.d/docker.list
install -D --mode=644 gpg /etc/apt/keyrings/docker.asc
cd /
rm -r "$PACKAGES"
