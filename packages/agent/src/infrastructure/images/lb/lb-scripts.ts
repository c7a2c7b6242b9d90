// What runs inside the load balancer's machine besides the kernel, busybox, qemu-ga and haproxy: nobody logs in, there is no
// shell on its consoles. Name and addresses come from its cloud-init drive; where it listens and who is behind it from the
// serial number of its SMBIOS, the one text that every platform lets a token set: `gpve-lb PORT ADDRESS:PORT ...`.
import { GUEST_SCRIPTS } from "../tiny/guest-scripts.ts";
import { SEED_SCRIPTS } from "../tiny/seed-script.ts";
import type { GuestScript } from "../memory-root.ts";

const shell = (text: string): string => `#!/bin/sh\n${text.trimStart()}`;

const inittab = `::sysinit:/etc/rc
::respawn:/sbin/balance
::ctrlaltdel:/sbin/shutdown -r
`;

const say = shell(`
for console in /dev/ttyS0 /dev/tty0; do echo "lb: $*" >$console; done 2>/dev/null
`);

const rc = shell(`
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
hostname lb
ip link set lo up
modprobe -a -b -q $(cat /sys/bus/pci/devices/*/modalias) 2>/dev/null
modprobe -a -b -q $(cat /sys/bus/virtio/devices/*/modalias 2>/dev/null) sd_mod sr_mod isofs button evdev 2>/dev/null
/sbin/apply-seed
acpid -l /run/acpid.log -p /run/acpid.pid
uevent /sbin/hotplug &
/sbin/guest-agent &
read up rest </proc/uptime
/sbin/say "ready after $up s, hostname $(hostname), seed $(cat /run/seed-kind)"
`);

/** Whoever answers at all is asked whether he is ready; an API server that knows no strangers answers 401. */
const config = shell(`
set -f
read -r word port behind </sys/class/dmi/id/product_serial
[ "$word" = gpve-lb ] && [ -n "$behind" ] || exit 1
for each in "$port" $behind; do
  case "$each" in *[!][0-9A-Fa-f.:]*) exit 1 ;; esac
done
cat <<EOF
global
    maxconn 4000
    user haproxy
    group haproxy
    chroot /run/empty
    log stdout format raw daemon notice

defaults
    log global
    mode tcp
    timeout connect 5s
    timeout client 4h
    timeout server 4h

frontend api
    bind :::$port v4v6
    default_backend behind

backend behind
    balance leastconn
    option httpchk GET /readyz
    http-check expect rstatus ^(200|401|403)$
    default-server check check-ssl verify none inter 2s fall 3 rise 2 on-marked-down shutdown-sessions
EOF
for each in $behind; do echo "    server $each $each"; done
`);

const balance = shell(`
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mkdir -p /run/empty
if ! /sbin/lb-config >/run/haproxy.cfg; then
  /sbin/say "the serial number of its SMBIOS does not say who is behind it"
  exec sleep 3600
fi
haproxy -db -f /run/haproxy.cfg 2>&1 | while read -r line; do /sbin/say "$line"; done
sleep 1
`);

const OWN: readonly GuestScript[] = [
  { path: "etc/inittab", text: inittab, executable: false },
  { path: "etc/rc", text: rc, executable: true },
  {
    path: "etc/passwd",
    text: "root:x:0:0:root:/root:/bin/false\nhaproxy:x:99:99::/:/bin/false\n",
    executable: false,
  },
  { path: "etc/group", text: "root:x:0:\nhaproxy:x:99:\n", executable: false },
  {
    path: "etc/os-release",
    text: 'ID=gpve-lb\nNAME="gpve lb"\nPRETTY_NAME="gpve load balancer"\nVERSION_ID=1\n',
    executable: false,
  },
  { path: "sbin/say", text: say, executable: true },
  { path: "sbin/lb-config", text: config, executable: true },
  { path: "sbin/balance", text: balance, executable: true },
];

/** Of the tiny guest's, what any machine needs. */
const SHARED = new Set(
  `init etc/profile etc/shadow etc/acpi/PWRF/00000080 sbin/guest-agent sbin/hotplug sbin/shutdown sbin/dhcp sbin/dhcp-lease`.split(
    " ",
  ),
);

export const LB_SCRIPTS: readonly GuestScript[] = [
  ...GUEST_SCRIPTS.filter(({ path }) => SHARED.has(path)),
  ...SEED_SCRIPTS,
  ...OWN,
];
