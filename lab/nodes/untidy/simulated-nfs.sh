# The kernel below may have no NFS client. This one is simulated: "server:/path" is a directory that all nodes of the lab
# share, and no packet leaves the node. The program of nfs-common is set aside.
for place in /sbin /usr/sbin; do
	dpkg-divert --quiet --local --no-rename --divert "$place/mount.nfs.distrib" --add "$place/mount.nfs"
done
cat >/usr/sbin/mount.nfs <<'END'
#!/bin/sh
# mount.nfs, simulated by the lab: a directory that the nodes share, without a server.
set -eu
shared=/var/lib/lab-nfs/${1%%:*}${1#*:}
if [ ! -d "$shared" ]; then
	echo "mount.nfs: access denied by server while mounting $1 (simulated by the lab: there is no $shared)" >&2
	exit 32
fi
exec mount --bind "$shared" "$2"
END
chmod 755 /usr/sbin/mount.nfs
