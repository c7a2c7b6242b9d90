import { describe, expect, it } from "vitest";
import { checkFormat, isKnownFormat } from "./check.ts";
import { compilePattern } from "./pattern.ts";

const good: readonly (readonly [string, ...string[]])[] = [
  ["ipv4", "0.0.0.0", "255.255.255.255"],
  ["ipv6", "::", "::1", "fe80::1", "1:2:3:4:5:6:7:8", "::ffff:10.0.0.1", "2001:db8::"],
  ["ip", "10.0.0.1", "::1"],
  ["ipv4mask", "0.0.0.0", "255.255.255.255", "255.255.240.0"],
  ["CIDRv4", "10.0.0.0/8"],
  ["CIDRv6", "fd00::/8", "::1/128"],
  ["CIDR", "10.0.0.1/24", "fd00::1/64"],
  ["FullRangeCIDR", "0.0.0.0/0", "::/0"],
  ["pve-ipv4-config", "dhcp", "manual", "10.0.0.1/24"],
  ["pve-ipv6-config", "auto", "dhcp", "fd00::1/64"],
  ["IPorCIDR", "10.0.0.1", "10.0.0.0/4"],
  ["IPorCIDRorAlias", "10.0.0.1", "dc/net-a", "guest/x1"],
  ["dns-name", "a", "a-b.example.com"],
  ["address", "host.example", "::1"],
  ["address-list", "", "10.0.0.1 ::1,host"],
  ["email", "a.b+c@example.com"],
  ["email-opt", "", "a@b"],
  ["email-or-username", "root", "a@b.c"],
  ["disk-size", "1", "1.5G", "4TiB"],
  ["pve-vlan-id-or-range", "2", "2-4094"],
  ["pve-startup-order", "1", "order=1,up=5,down=6"],
  ["timezone", "UTC", "Europe/Vienna"],
  ["pve-ct-timezone", "host", "America/Argentina/Salta"],
  ["storage-pair-list", "1", "local", "local:ceph,a1:b2"],
  ["bridge-pair", "vmbr0:vmbr1"],
  ["pve-userid", "root@pam"],
  ["pve-priv-list", "VM.Audit,Sys.Modify"],
  ["pve-volume-id", "local:iso/x.iso"],
  ["pve-volume-id-or-absolute-path", "/dev/sda", "local:x"],
  ["pve-volume-id-or-qm-path", "none", "cdrom", "/dev/sda", "local:x"],
  ["pve-storage-server", "nas.example", "10.0.0.1"],
  ["pve-storage-path", "/mnt/x"],
  ["pve-storage-content", "images", "volumes", "none"],
  ["pve-storage-portal-dns", "10.0.0.1:3260", "[::1]:3260", "[::1]", "::1", "san.example:1"],
  ["pve-storage-zfs-blocksize", "8k", "16K"],
  ["pve-dir-override", "iso=my/isos"],
  ["pve-cpuset", "0,5,8-11"],
  ["pve-phys-bits", "host", "8", "64"],
  ["pve-hotplug-features", "0", "1", "network,disk,usb,cpu", ""],
  ["pve-qm-bootdev-list", "scsi0;ide2;net0"],
  [
    "pve-calendar-event",
    "*/15",
    "mon..fri 02:30",
    "daily",
    "2026-01-* 00:00",
    "sat",
    "21:00",
    "mon,wed 1,2:0/5",
  ],
  ["graphite-path", "proxmox.node"],
  ["pve-lxc-mp-string", "/srv/data"],
  ["pve-lxc-dev-string", "/dev/dri/card0"],
  ["lxc-ip-with-ll-iface", "10.0.0.1", "fe80::1%eth0"],
  ["pem-certificate-chain", "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n"],
  ["pem-string", "-----BEGIN PRIVATE KEY-----\nMA==\n-----END PRIVATE KEY-----\n"],
  ["pve-command-batch", "[]"],
  ["pve-sdn-fabric-id", "fab1"],
  ["pve-sdn-bgp-rt-list", "65000:100"],
  ["pve-sdn-isis-net", "47.0023.0000.0000.0000.0000.0000.0000.1900.0004.00"],
  ["pve-sdn-subnet-id", "10.0.0.0/24", "zone-10.0.0.0-24"],
  ["pve-fw-addr-spec", "+dc/set", "alias1", "10.0.0.1,10.1.0.0/16", "10.0.0.1-10.0.0.9", "fd00::1"],
  ["pve-fw-sport-spec", "80,443,8000:8080,ssh"],
  ["pve-fw-protocol-spec", "tcp", "47"],
  ["pve-fw-icmp-type-spec", "echo-request", "8/0", "any"],
  ["pve-fw-conntrack-helper", "ftp,sip"],
  ["string-list", "a b"],
  ["pve-vmid", "100"],
  ["mac-addr", "bc:24:11:AA:00:01"],
  ["pve-qm-boot", "order=scsi0;net0", "cdn"],
  ["pve-tag-list", "a;b"],
  ["pve-vm-cpu-conf", "x86-64-v2-AES", "host,flags=+aes", "custom-mine"],
];

const bad: readonly (readonly [string, string, string])[] = [
  ["ipv4", "256.1.1.1", "value does not look like a valid IPv4 address\n"],
  ["ipv4", "01.1.1.1", "value does not look like a valid IPv4 address\n"],
  ["ipv6", "1::2::3", "value does not look like a valid IPv6 address\n"],
  ["ipv6", "1:2:3:4:5:6:7", "value does not look like a valid IPv6 address\n"],
  ["ipv6", "1:2:3:4:5:6:7:8::", "value does not look like a valid IPv6 address\n"],
  ["ipv6", "10.0.0.1::", "value does not look like a valid IPv6 address\n"],
  ["ipv6", "zz::", "value does not look like a valid IPv6 address\n"],
  ["ip", "x", "value does not look like a valid IP address\n"],
  ["ipv4mask", "255.0.255.0", "value does not look like a valid IP netmask\n"],
  ["ipv4mask", "x", "value does not look like a valid IP netmask\n"],
  ["CIDRv4", "10.0.0.0/7", "value does not look like a valid IPv4 CIDR network\n"],
  ["CIDR", "10.0.0.0", "value does not look like a valid CIDR network\n"],
  ["pve-ipv4-config", "auto", "value does not look like a valid ipv4 network configuration\n"],
  ["dns-name", "a_b", "value does not look like a valid DNS name\n"],
  ["address", "a b", "value does not look like a valid address: a b\n"],
  ["email", "a@", "value does not look like a valid email address\n"],
  ["disk-size", "1X", "value does not look like a valid disk size: 1X\n"],
  ["pve-vlan-id-or-range", "x", "invalid VLAN configuration 'x'\n"],
  ["pve-vlan-id-or-range", "2-5000", "invalid VLAN tag '5000'\n"],
  ["pve-vlan-id-or-range", "9-3", "VLAN range must go from lower to higher tag '9-3'\n"],
  ["pve-startup-order", "order=x", "unable to parse startup options\n"],
  ["timezone", "Moon", "invalid time zone 'Moon'\n"],
  [
    "storage-pair",
    "a1:-",
    "entry 'a1:-' contains invalid ID - storage ID '-' contains illegal characters\n\n\n",
  ],
  ["pve-userid", "a@", "user name 'a@' is too short\n"],
  ["pve-userid", "x".repeat(65), `user name '${"x".repeat(65)}' is too long (65 > 64)\n`],
  ["pve-userid", "nobody", "value 'nobody' does not look like a valid user name\n"],
  ["pve-priv", "VM.Fly", "invalid privilege 'VM.Fly'\n"],
  ["pve-volume-id", "nothing", "unable to parse volume ID 'nothing'\n"],
  ["pve-volume-id-or-qm-path", "x", "unable to parse volume ID 'x'\n"],
  ["pve-storage-portal-dns", "a b:1", "value does not look like a valid portal address\n"],
  ["pve-storage-portal-dns", "[10.0.0.1]:1", "value does not look like a valid portal address\n"],
  ["pve-dir-override", "iso=../x", "invalid override 'iso=../x'\n"],
  ["pve-cpuset", "5-1", "unable to parse cpuset option\n"],
  ["pve-phys-bits", "65", "value must be an integer between 8 and 64 or 'host'\n"],
  ["pve-hotplug-features", "gpu", "unable to parse hotplug option\n"],
  ["pve-qm-bootdev", "scsi31", "invalid boot device 'scsi31'\n"],
  ["pve-qm-bootdev", "efidisk0", "invalid boot device 'efidisk0'\n"],
  [
    "pve-calendar-event",
    "whenever",
    "invalid calendar event 'whenever' - unable to parse calendar event at 'whenever' - Context(\"weekday\")\n\n",
  ],
  ["pve-lxc-mp-string", "/a/../b", "/a/../b contains illegal character sequences\n"],
  ["pve-command-batch", "{}", "commands is not a valid array of commands\n"],
  ["pve-fw-addr-spec", "+!", "invalid characters in IPSet name '+!'\n"],
  ["pve-fw-addr-spec", "10.0.0.1,fd00::1", "detected mixed ipv4/ipv6 addresses in address list\n"],
  ["pve-fw-addr-spec", "10.0.0.1,10.0.0.1-10.0.0.2", "IP range not allowed in list\n"],
  ["pve-fw-addr-spec", "10.0.0.1/99", "invalid IP address: 10.0.0.1/99\n"],
  ["pve-fw-sport-spec", "70000", "invalid port '70000'\n"],
  ["pve-fw-sport-spec", "1:70000", "invalid port '1:70000'\n"],
  ["pve-fw-sport-spec", "9:3", "backwards range '9:3' not allowed, did you mean '3:9'?\n"],
  [
    "pve-fw-sport-spec",
    "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16",
    "too many entries in port list (> 15 numbers)\n",
  ],
  ["pve-fw-protocol-spec", "999", "unknown protocol '999'\n"],
  ["pve-fw-icmp-type-spec", "?", "invalid icmp-type value '?'\n"],
  ["pve-fw-conntrack-helper", "nope", "value does not look like a valid conntrack helper\n"],
  ["IPorCIDRorAlias", "?", "value does not look like a valid IP address or CIDR network\n"],
  ["pve-vmid", "99", "value does not look like a valid VM ID\n"],
  ["pve-vmid-list", "100,x", "value does not look like a valid VM ID\n"],
  ["mac-addr", "01:00:00:00:00:00", "value does not look like a valid unicast MAC address\n"],
  ["pve-storage-content", "disks", "invalid content type 'disks'\n"],
  ["pve-storage-id", "x", "storage ID 'x' contains illegal characters\n"],
  ["pve-bridge-id", "a b", "invalid bridge ID 'a b'\n"],
  ["urlencoded", "a b", "invalid urlencoded string: a b\n"],
  ["pve-day-of-week", "xxx", "invalid day 'xxx'\n"],
  ["pve-realm", "1", "value does not look like a valid realm\n"],
  ["no-such-format", "x", "undefined format 'no-such-format'\n"],
];

describe("checkFormat", () => {
  it.each(good)("accepts good values of %s", (format, ...values) => {
    for (const value of values) expect([value, checkFormat(format, value)]).toEqual([value, undefined]);
    expect(isKnownFormat(format)).toBe(true);
  });

  it.each(bad)("refuses %s %j with PVE's text", (format, value, detail) => {
    expect(checkFormat(format, value)).toBe(`invalid format - ${detail}`);
  });

  it("says what is wrong with JSON that is none", () => {
    expect(checkFormat("pve-command-batch", "{")).toContain("commands param did not contain valid JSON");
  });
});

describe("compilePattern", () => {
  it("reads Perl's open lower bound and inline case flag", () => {
    expect(compilePattern("[a-z]{,3}").test("abc")).toBe(true);
    expect(compilePattern("[a-z]{,3}").test("abcd")).toBe(false);
    expect(compilePattern("(?i)ab|cd").test("CD")).toBe(true);
    expect(compilePattern("ab|cd").test("abx")).toBe(false);
    expect(compilePattern("ab", "i")).toBe(compilePattern("ab", "i"));
  });

  it("stays quick on image references made to backtrack", () => {
    const pattern = String.raw`^[a-z\d]+(?:(?:[._]|__|[-]*)[a-z\d]+)*$`;
    expect(compilePattern(pattern).test(`${"a".repeat(5000)}!`)).toBe(false);
    expect(compilePattern(pattern).test("a--b_c__d")).toBe(true);
  });
});
