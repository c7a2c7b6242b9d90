// How the tiny guest obeys a cloud-init drive: a small part of what cloud-init does, in shell and awk. It finds the
// drive by its label, takes name, keys, password and addresses from it, and runs user data that is a script.
// Every network format becomes lines `name mac type address mask gateway`, "-" for what is absent.

/** network-config, version 1 and 2. */
const networkYaml = `
function value(s) { sub(/^[^:]*: */, "", s); gsub(/["']/, "", s); return s }
function item(s) { sub(/^ *- */, "", s); gsub(/["']/, "", s); return s }
function flush() {
  if (type != "") print or_dash(name), or_dash(mac), type, or_dash(address), or_dash(mask), or_dash(gateway)
  type = address = mask = gateway = ""
}
function or_dash(s) { return s == "" ? "-" : s }
/^ *- type: physical/ { flush(); name = mac = list = ""; dns = 0; next }
/^ *- type: nameserver/ { flush(); dns = 1; next }
/^ *- type:/ { flush(); type = value($0); next }
/name:/ { name = value($0); next }
/mac_address:|macaddress:/ { mac = tolower(value($0)); next }
/^ +net[0-9]+:/ { flush(); name = mac = list = ""; dns = 0; next }
/dhcp4: true/ { type = "dhcp"; flush(); next }
/dhcp6: true/ { type = "dhcp6"; flush(); next }
/gateway[46]?:/ {
  gateway = value($0)
  if (type == "") { print or_dash(name), or_dash(mac), "route", "-", "-", gateway; gateway = "" }
  next
}
/nameservers:/ { dns = 1; next }
/search:/ { list = "search"; next }
/addresses:|address: *$/ { list = dns ? "nameserver" : "address"; next }
/address:/ { address = value($0); next }
/netmask:/ { mask = value($0); next }
/^ *- / && list == "address" { print or_dash(name), or_dash(mac), "static", item($0), "-", "-"; next }
/^ *- / && list != "" { print list, item($0) >"/run/seed-dns"; next }
END { flush() }
`;

/** /etc/network/interfaces, as on a config drive. */
const networkEni = `
function flush() {
  if (type != "" && name != "lo") print name, "-", type, or_dash(address), or_dash(mask), or_dash(gateway)
  type = address = mask = gateway = ""
}
function or_dash(s) { return s == "" ? "-" : s }
$1 == "iface" { flush(); name = $2; type = $4; next }
$1 == "address" { address = $2 }
$1 == "netmask" { mask = $2 }
$1 == "gateway" { gateway = $2 }
$1 ~ /^dns.nameservers$/ { for (i = 2; i <= NF; i++) print "nameserver", $i >"/run/seed-dns" }
$1 ~ /^dns.search$/ { for (i = 2; i <= NF; i++) print "search", $i >"/run/seed-dns" }
END { flush() }
`;

const applySeed = `#!/bin/sh
kind=none
mkdir -p /run/seed
for disk in /dev/sr* /dev/vd? /dev/sd?; do
  [ -b $disk ] || continue
  label=$(dd if=$disk bs=8 skip=4101 count=4 2>/dev/null | tr -d '\\0 ')
  case "$label" in
    cidata | CIDATA) kind=nocloud ;;
    config-2 | CONFIG-2) kind=configdrive ;;
    *) continue ;;
  esac
  mount -t iso9660 -o ro $disk /mnt && cp -r /mnt/. /run/seed/ && umount /mnt
  break
done
echo $kind >/run/seed-kind
case $kind in
  nocloud)
    user=/run/seed/user-data
    awk -f /etc/network-yaml.awk /run/seed/network-config >/run/seed-network 2>/dev/null
    ;;
  configdrive)
    user=/run/seed/openstack/latest/user_data
    awk -f /etc/network-eni.awk /run/seed/openstack/content/0000 >/run/seed-network 2>/dev/null
    ;;
  none)
    for device in /sys/class/net/*; do
      [ \${device##*/} = lo ] || /sbin/dhcp \${device##*/}
    done
    exit 0
    ;;
esac

field() { sed -n "s/^$1: *//p" $user | head -n 1 | sed "s/^[\\"']//; s/[\\"']$//"; }
name=$(field hostname)
[ -n "$name" ] && hostname "$name" && echo "$name" >/etc/hostname && echo "$name" >/www/index.html
login=$(field user)
password=$(field password)
if [ -n "$login" ] && [ "$login" != root ]; then
  echo "$login:x:1000:1000::/home/$login:/bin/sh" >>/etc/passwd
  echo "$login:\${password:-*}:0::::::" >>/etc/shadow
elif [ -n "$password" ]; then
  echo "root:$password:0::::::" >/etc/shadow
fi
home=/root
[ -n "$login" ] && [ "$login" != root ] && home=/home/$login
mkdir -p $home/.ssh
awk '/^ssh_authorized_keys:/ { on = 1; next }
  on && /^ *- / { sub(/^ *- */, ""); gsub(/^["\\x27]|["\\x27]$/, ""); print; next }
  { on = 0 }' $user >$home/.ssh/authorized_keys
chmod 700 $home/.ssh
[ $home = /root ] || chown -R 1000:1000 $home

by_mac() {
  for device in /sys/class/net/*; do
    [ "$(cat $device/address)" = "$1" ] && echo \${device##*/} && return
  done
}
while read name mac type address mask gateway; do
  device=$name
  [ "$mac" = - ] || device=$(by_mac "$mac")
  [ -n "$device" ] && [ -e /sys/class/net/$device ] || continue
  touch /run/net-$device
  ip link set $device up
  case $type in
    dhcp | dhcp4) /sbin/dhcp $device ;;
    static | static6)
      case $address in
        */*) ip addr add $address dev $device ;;
        *:*) ip addr add $address/$mask dev $device ;;
        *) ifconfig $device $address netmask $mask ;;
      esac
      ;;
  esac
  [ "$gateway" = - ] || case $gateway in
    *:*) ip -6 route replace default via $gateway dev $device ;;
    *) ip route replace default via $gateway dev $device ;;
  esac
done </run/seed-network
[ -e /run/seed-dns ] && cat /run/seed-dns >/etc/resolv.conf
case "$(head -c 2 $user)" in '#!') chmod +x $user && $user >/run/user-data.log 2>&1 ;; esac
exit 0
`;

export const SEED_SCRIPTS = [
  { path: "sbin/apply-seed", text: applySeed, executable: true },
  { path: "etc/network-yaml.awk", text: networkYaml, executable: false },
  { path: "etc/network-eni.awk", text: networkEni, executable: false },
] as const;
