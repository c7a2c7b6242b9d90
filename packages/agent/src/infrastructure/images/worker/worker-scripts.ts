// What runs inside the machine of an L3 worker besides Kubernetes' own programs. busybox init drives it: `rc` once, then the
// programs, each started again when it ends.
//
//   vda  the root, read-only: programs and images, one for all workers of a version
//   vdb  /var: what this worker keeps, containers and volumes of pods among it
//   vdc  a tar archive: settings and keys of this worker
//
// On the port `gpve` it tells the node what runs (`pods …`, `words …`) and is told what to do (`restart PART`, `volumes`,
// `drop VOLUME`, `stop`).
import type { GuestScript } from "../memory-root.ts";

const shell = (text: string): string => `#!/bin/sh\n${text.trimStart()}`;
const PATHS = "/opt/gpve/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The kernel starts this, out of its archive, to find the root. */
export const EARLY_INIT = `#!/bin/busybox sh
export PATH=/bin
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox modprobe -a virtio_pci virtio_mmio virtio_blk
tries=0
until [ -b /dev/vdc ] || [ $tries -gt 200 ]; do tries=$((tries + 1)); busybox sleep 0.05; done
busybox mount -t ext4 -o ro,noload /dev/vda /root || echo "worker: no root"
busybox umount /sys /proc /dev
exec busybox switch_root /root /sbin/init
`;

const inittab = `::sysinit:/etc/rc
::respawn:/sbin/part containerd
::respawn:/sbin/part kubelet
::respawn:/sbin/part kube-proxy
::respawn:/sbin/speak
::ctrlaltdel:/sbin/end
`;

/** Kubelets want these of a kernel. */
const SYSCTLS = [
  "vm.overcommit_memory=1",
  "vm.panic_on_oom=0",
  "kernel.panic=10",
  "kernel.panic_on_oops=1",
  "kernel.keys.root_maxkeys=1000000",
  "kernel.keys.root_maxbytes=25000000",
  "net.ipv4.ip_forward=1",
  "net.bridge.bridge-nf-call-iptables=1",
  "fs.inotify.max_user_instances=8192",
  "fs.inotify.max_user_watches=524288",
];

const rc = shell(`
export PATH=${PATHS}
mount -t devtmpfs dev /dev
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t tmpfs -o mode=0755 run /run
mount -t tmpfs tmp /tmp
mkdir -p /dev/pts /dev/shm /dev/mqueue /run/lock /run/netns
mount -t devpts -o gid=5,mode=0620,ptmxmode=0666 pts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t mqueue mqueue /dev/mqueue
mount -t cgroup2 cgroup /sys/fs/cgroup
modprobe -a -q virtio_net virtio_console virtio_rng overlay br_netfilter veth nf_tables nf_conntrack
mount -t ext4 -o noatime,discard /dev/vdb /var || echo "worker: no /var"
mount --make-rshared /
rm -rf /var/lib/cni
mkdir -p /var/lib/cni /var/lib/kubelet /var/lib/containerd /var/log/pods /var/log/containers
ln -sfn /run /var/run
/sbin/take-settings
/sbin/make-volumes
. /run/gpve/settings
hostname "$NAME"
ip link set lo up
ip address add "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"
for each in ${SYSCTLS.join(" ")}; do sysctl -q -w "$each"; done
ulimit -n 1048576
mkdir -p /sys/fs/cgroup/gpve/shims
for group in /sys/fs/cgroup /sys/fs/cgroup/gpve; do
  for controller in $(cat $group/cgroup.controllers); do echo +$controller >$group/cgroup.subtree_control; done
done 2>/dev/null
nft -f /run/gpve/rules.nft
{ while read -r network via; do ip route add "$network" via "$via"; done </run/gpve/routes; } &
read up rest </proc/uptime
echo "worker: $NAME is up after $up s"
`);

/** The node may have written others since: what the kernel read of the disk before is forgotten. */
const takeSettings = shell(`
umask 077
mkdir -p /run/gpve
blockdev --flushbufs /dev/vdc
tar -x -f /dev/vdc -C /run/gpve
`);

/** Those that the settings name and that are not there; whatever user a container is may write. */
const makeVolumes = shell(`
folder=/var/lib/kubelet/gpve-volumes
[ -s /run/gpve/volumes ] || exit 0
mkdir -p -m 0700 $folder
while read -r name; do
  [ -d "$folder/$name" ] || mkdir -m 0777 "$folder/$name"
  chmod 0777 "$folder/$name"
done </run/gpve/volumes
`);

const part = shell(`
export PATH=${PATHS} HOME=/
[ -e /run/ending ] && exec sleep 1000000
. /run/gpve/settings
ulimit -n 1048576
log=/var/log/gpve-$1.log
case $1 in
  containerd) set -- containerd --config /run/gpve/containerd.toml ;;
  kubelet)
    /sbin/bring-images
    set -- kubelet --config=/run/gpve/kubelet.json --kubeconfig=/run/gpve/kubelet.kubeconfig \\
      --hostname-override="$NAME" --node-ip="$ADDRESS" --root-dir=/var/lib/kubelet
    ;;
  kube-proxy) set -- kube-proxy --config=/run/gpve/kube-proxy.json ;;
esac
name=$1
"$@" >>$log 2>&1
echo "worker: $name ended with $?: $(tail -n 3 $log | cut -c 1-300)"
sleep 1
`);

/** containerd gets the images that it has not, before any pod asks for them. */
const bringImages = shell(`
call="ctr --address /run/containerd/containerd.sock --namespace k8s.io images"
until [ -S /run/containerd/containerd.sock ] && there=$($call list --quiet 2>/dev/null); do sleep 0.2; done
for file in /opt/gpve/images/*.tar; do
  name=$(cat "\${file%.tar}.name")
  echo "$there" | grep -qxF "$name" || $call import "$file" >/dev/null
done
`);

/** A pod has a folder of logs, by its name, and while it runs a cgroup, by its uid. */
const speak = shell(`
export PATH=${PATHS}
for port in /sys/class/virtio-ports/*; do
  [ "$(cat "$port/name" 2>/dev/null)" = gpve ] && device=/dev/\${port##*/}
done
[ -n "$device" ] || { sleep 1; exit; }
exec 3<>"$device"
tell() {
  list=
  for log in /var/log/pods/*_*_*; do
    for group in /sys/fs/cgroup/gpve/kubepods/pod\${log##*_} /sys/fs/cgroup/gpve/kubepods/*/pod\${log##*_}; do
      [ -d "$group" ] && list="$list \${log##*/}"
    done
  done
  echo "pods$list"
  for name in containerd kubelet kube-proxy; do
    log=/var/log/gpve-$name.log
    [ -s $log ] || continue
    echo "words $name $(tail -n 1 $log | cut -c 1-400)"
    [ "$(stat -c %s $log)" -lt 4194304 ] || : >$log
  done
}
{ while :; do tell; sleep 3; done; } >&3 3>&- &
while :; do
  if read -r word <&3; then
    case "$word" in
      stop) /sbin/end ;;
      volumes)
        /sbin/take-settings
        /sbin/make-volumes
        ;;
      "drop pvc-"*) rm -rf "/var/lib/kubelet/gpve-volumes/\${word#* }" ;;
      "restart "*)
        /sbin/take-settings
        killall -q "\${word#* }"
        ;;
    esac
  else
    sleep 1
  fi
done
`);

/** Pods are asked to end; what they wrote is on the disk before the machine goes. */
const end = shell(`
export PATH=${PATHS}
touch /run/ending
killall -q kubelet
pods() { cat /dev/null $(find /sys/fs/cgroup/gpve/kubepods -name cgroup.procs 2>/dev/null) 2>/dev/null; }
kill -TERM $(pods) 2>/dev/null
before=$(pods | wc -l)
calm=0
while [ "$before" -gt 0 ] && [ $calm -lt 3 ]; do
  sleep 0.3
  now=$(pods | wc -l)
  if [ "$now" = "$before" ]; then calm=$((calm + 1)); else calm=0; fi
  before=$now
done
killall -q kube-proxy containerd
sync
mount -o remount,ro /var 2>/dev/null
reboot -f
`);

const profile = `export PATH=${PATHS} HOME=/\n`;

export const WORKER_SCRIPTS: readonly GuestScript[] = [
  { path: "etc/inittab", text: inittab, executable: false },
  { path: "etc/profile", text: profile, executable: false },
  { path: "etc/passwd", text: "root:x:0:0:root:/:/bin/sh\n", executable: false },
  { path: "etc/group", text: "root:x:0:\n", executable: false },
  { path: "etc/os-release", text: 'ID=gpve-worker\nPRETTY_NAME="gpve worker"\n', executable: false },
  { path: "etc/rc", text: rc, executable: true },
  { path: "sbin/take-settings", text: takeSettings, executable: true },
  { path: "sbin/make-volumes", text: makeVolumes, executable: true },
  { path: "sbin/part", text: part, executable: true },
  { path: "sbin/bring-images", text: bringImages, executable: true },
  { path: "sbin/speak", text: speak, executable: true },
  { path: "sbin/end", text: end, executable: true },
];
