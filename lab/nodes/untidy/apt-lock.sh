# The locks that unattended-upgrades holds while it installs, under its name.
holder=/usr/lib/lab-node/unattended-upgrade
cat >"$holder" <<'END'
#!/usr/bin/python3
import fcntl, os, sys, time
LOCKS = ("dpkg/lock-frontend", "dpkg/lock", "apt/lists/lock")
held = [os.open("/var/lib/" + name, os.O_RDWR | os.O_CREAT, 0o640) for name in LOCKS]
for file in held:
    fcntl.lockf(file, fcntl.LOCK_EX)
open("/run/lab-node/apt-locked", "w").close()
time.sleep(int(sys.argv[1]))
END
chmod 755 "$holder"
systemd-run --quiet --unit=unattended-upgrades "$holder" "$SECONDS_HELD"
for _ in $(seq 100); do
	[ -e /run/lab-node/apt-locked ] && exit
	sleep 0.1
done
echo "the lock was not taken within 10 s" >&2
exit 1
