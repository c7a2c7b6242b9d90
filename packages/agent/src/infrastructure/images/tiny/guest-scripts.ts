// What runs inside the tiny guest besides the kernel, busybox, qemu-ga and dropbear. busybox init drives it: `rc` once, then a
// shell on the serial port and on the screen.

import type { GuestScript } from "../memory-root.ts";

const shell = (text: string): string => `#!/bin/sh\n${text.trimStart()}`;

/** The kernel starts this. It makes the file systems that busybox init expects. */
const init = `#!/bin/busybox sh
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs run /run
mkdir -p /dev/pts /run/lock
mount -t devpts pts /dev/pts
exec /sbin/init </dev/console >/dev/console 2>&1
`;

const inittab = `::sysinit:/etc/rc
ttyS0::respawn:-/bin/sh
tty1::respawn:-/bin/sh
::ctrlaltdel:/sbin/shutdown -r
`;

const profile = `export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
export PS1='\\h:\\w# '
cd /root
`;

/** Says a line on the serial port and on the screen, where they exist. */
const say = shell(`
for console in /dev/ttyS0 /dev/tty0; do echo "tiny: $*" >$console; done 2>/dev/null
`);

const rc = shell(`
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
hostname tiny
ip link set lo up
modprobe -a -b -q $(cat /sys/bus/pci/devices/*/modalias) 2>/dev/null
modprobe -a -b -q $(cat /sys/bus/virtio/devices/*/modalias 2>/dev/null) sd_mod sr_mod isofs button evdev 2>/dev/null
mount -t ext4 LABEL=tiny-data /data 2>/dev/null
/sbin/apply-seed
acpid -l /run/acpid.log -p /run/acpid.pid
uevent /sbin/hotplug &
/sbin/count &
httpd -h /www
/sbin/guest-agent &
/sbin/ssh-server &
/sbin/run-url &
read up rest </proc/uptime
/sbin/say "ready after $up s, hostname $(hostname), seed $(cat /run/seed-kind)"
{ modprobe -a -q virtio_blk virtio_scsi virtio_net virtio_console virtio_balloon virtio_rng vfat; } 2>/dev/null &
`);

/** A number that grows once a second, in memory only: what a rollback of RAM brings back. */
const count = shell(`
n=0
grep -q '^1: uart:1' /proc/tty/driver/serial 2>/dev/null && second=/dev/ttyS1
while :; do
  n=$((n + 1))
  echo $n >/run/counter.new && mv /run/counter.new /run/counter
  [ -n "$second" ] && echo "tick $n" >$second
  sleep 1
done
`);

const guestAgent = shell(`
tries=0
while [ $tries -lt 50 ]; do
  for port in /sys/class/virtio-ports/*; do
    [ "$(cat $port/name 2>/dev/null)" = org.qemu.guest_agent.0 ] || continue
    mkdir -p /dev/virtio-ports
    ln -sf ../\${port##*/} /dev/virtio-ports/org.qemu.guest_agent.0
    exec qemu-ga -m virtio-serial -p /dev/virtio-ports/org.qemu.guest_agent.0 -t /run -f /run/qemu-ga.pid >/run/qemu-ga.log 2>&1
  done
  tries=$((tries + 1))
  sleep 0.1
done
`);

/**
 * Lets in only who has a key or a password from the seed. Host keys that are quickly made: an RSA key takes long, and
 * without an ECDSA one dropbear offers it to clients that prefer it to ed25519.
 */
const sshServer = shell(`
cd /etc/dropbear
for kind in ecdsa ed25519; do [ -s $kind ] || dropbearkey -t $kind -f $kind >/dev/null 2>&1; done
exec dropbear -F -E -r ecdsa -r ed25519 -P /run/dropbear.pid >/run/dropbear.log 2>&1
`);

/** Fetches and runs the script that the kernel's command line names: how an installation is automated. */
const runUrl = shell(`
for word in $(cat /proc/cmdline); do
  case "$word" in tiny.run=*) url=\${word#*=} ;; esac
done
[ -n "$url" ] || exit 0
until wget -q -O /run/script "$url"; do sleep 1; done
sh /run/script >/run/script.log 2>&1
`);

/** Called for every device the kernel sees come or go: loads drivers, brings processors and memory into use. */
const hotplug = shell(`
[ "$ACTION" = add ] || exit 0
[ -n "$MODALIAS" ] && modprobe -b -q "$MODALIAS" 2>/dev/null
case "$SUBSYSTEM" in
  cpu | memory) echo 1 >/sys$DEVPATH/online ;;
  net) [ "$INTERFACE" = lo ] || [ -e /run/net-$INTERFACE ] || /sbin/dhcp "$INTERFACE" ;;
esac 2>/dev/null
exit 0
`);

const shutdown = shell(`
verb=poweroff
case " $* " in *" -r "*) verb=reboot ;; *" -H "*) verb=halt ;; esac
/sbin/say "$verb"
sync
umount /data 2>/dev/null
$verb -f
`);

const dhcp = shell(`
touch /run/net-$1
ip link set "$1" up
udhcpc -i "$1" -b -t 3 -T 1 -A 3 -x "hostname:$(hostname)" -s /sbin/dhcp-lease -p /run/udhcpc-$1.pid >/dev/null 2>&1 &
`);

const dhcpLease = shell(`
case "$1" in
  bound | renew)
    ifconfig $interface $ip netmask \${subnet:-255.255.255.0}
    for gateway in $router; do ip route replace default via $gateway dev $interface; break; done
    : >/etc/resolv.conf
    [ -n "$domain" ] && echo "search $domain" >>/etc/resolv.conf
    for server in $dns; do echo "nameserver $server" >>/etc/resolv.conf; done
    [ "$1" = bound ] && /sbin/say "$interface has $ip"
    ;;
  deconfig) ip addr flush dev $interface ;;
esac
`);

const osRelease = `ID=gpve-tiny
NAME="gpve tiny"
PRETTY_NAME="gpve tiny guest"
VERSION_ID=1
`;

export const GUEST_SCRIPTS: readonly GuestScript[] = [
  { path: "init", text: init, executable: true },
  { path: "etc/inittab", text: inittab, executable: false },
  { path: "etc/profile", text: profile, executable: false },
  { path: "etc/rc", text: rc, executable: true },
  { path: "etc/os-release", text: osRelease, executable: false },
  { path: "etc/passwd", text: "root:x:0:0:root:/root:/bin/sh\n", executable: false },
  { path: "etc/group", text: "root:x:0:\n", executable: false },
  { path: "etc/shadow", text: "root:*:0::::::\n", executable: false },
  { path: "etc/acpi/PWRF/00000080", text: shell("/sbin/shutdown -h\n"), executable: true },
  { path: "sbin/say", text: say, executable: true },
  { path: "sbin/count", text: count, executable: true },
  { path: "sbin/guest-agent", text: guestAgent, executable: true },
  { path: "sbin/run-url", text: runUrl, executable: true },
  { path: "sbin/ssh-server", text: sshServer, executable: true },
  { path: "sbin/hotplug", text: hotplug, executable: true },
  { path: "sbin/shutdown", text: shutdown, executable: true },
  { path: "sbin/dhcp", text: dhcp, executable: true },
  { path: "sbin/dhcp-lease", text: dhcpLease, executable: true },
  { path: "www/index.html", text: "tiny\n", executable: false },
];
