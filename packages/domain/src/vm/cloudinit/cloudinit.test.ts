import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import type { VmValues } from "../config/vm-config.ts";
import { cloudinitDrive, type CloudinitDriveFacts, dumpCloudinit } from "./cloudinit-drive.ts";
import { cloudinitPasswordNeedsHash } from "./cloudinit-password.ts";
import { networkConfigV2 } from "./network-config.ts";
import { cloudinitUserData } from "./user-data.ts";
import { yamlScalar, yamlSingleQuoted } from "./yaml-scalar.ts";

const facts: CloudinitDriveFacts = {
  vmid: 101,
  dns: { search: "node.example", dns1: "192.0.2.53", dns2: "2001:db8::53" },
  sha1: (text) => `sha1-of-${text.length}`,
  base64: (text) => Buffer.from(text).toString("base64"),
  snippet: async (volume) => `text of ${volume}`,
};

const values: VmValues = {
  name: "web1",
  ciuser: "ann",
  cipassword: "$5$salt$hash",
  sshkeys: "ssh-ed25519%20AAAA%2B%2F%20ann%40home%0A%0Assh-rsa%20BBBB%0D%0A",
  net0: "virtio=BC:24:11:AA:BB:CC,bridge=vmbr0",
  net1: "virtio=BC:24:11:00:00:01,bridge=vmbr0,mtu=1400",
  net2: "virtio=BC:24:11:00:00:02,bridge=vmbr0",
  ipconfig0: "ip=10.0.0.2/20,gw=10.0.0.1,ip6=2001:db8::2/64,gw6=2001:db8::1",
  ipconfig1: "ip=dhcp,ip6=auto",
};

describe("user data", () => {
  test("says name, user, password and keys as PVE does", () => {
    expect(cloudinitUserData(values, facts)).toBe(`#cloud-config
hostname: web1
manage_etc_hosts: true
fqdn: web1
user: ann
password: $5$salt$hash
ssh_authorized_keys:
  - ssh-ed25519 AAAA+/ ann@home
  - ssh-rsa BBBB
chpasswd:
  expire: False
users:
  - default
package_upgrade: true
`);
  });

  test("of root opens root's login, and upgrades only if wanted", () => {
    const text = cloudinitUserData({ name: "a.b.example", ciuser: "root", ciupgrade: "0" }, facts);
    expect(parse(text)).toEqual({
      hostname: "a",
      manage_etc_hosts: true,
      fqdn: "a.b.example",
      user: "root",
      disable_root: false,
      chpasswd: { expire: false },
    });
  });

  test("falls back to the VMID, and adds the search domain to the name", () => {
    expect(parse(cloudinitUserData({ searchdomain: "x.example" }, facts))).toMatchObject({
      hostname: "VM101",
      fqdn: "VM101.x.example",
    });
  });

  test("keeps whatever people write one value: nothing they write becomes another key", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "binary" }),
        fc.string(),
        fc.array(fc.string({ minLength: 1 })),
        (user, password, keys) => {
          const text = cloudinitUserData(
            {
              name: "n",
              ciuser: user,
              cipassword: password,
              sshkeys: encodeURIComponent(keys.join("\n").toWellFormed()),
            },
            facts,
          );
          const wanted = keys
            .join("\n")
            .split("\n")
            .map((key) => key.replace(/\r$/, ""))
            .filter((key) => /\S/.test(key));
          const read = parse(text) as Record<string, unknown>;
          expect([read["user"], read["password"], read["ssh_authorized_keys"] ?? []]).toEqual([
            user,
            password,
            wanted,
          ]);
          expect(Object.keys(read).filter((key) => key !== "disable_root" && key !== "users")).toEqual([
            "hostname",
            "manage_etc_hosts",
            "fqdn",
            "user",
            "password",
            "ssh_authorized_keys",
            "chpasswd",
            "package_upgrade",
          ]);
        },
      ),
    );
  });
});

describe("YAML scalars", () => {
  test("are bare only when every reader sees the same text", () => {
    for (const bare of ["web1", "$6$a$b", "ssh-rsa AAAA== me@host", "a.b.c"])
      expect(yamlScalar(bare)).toBe(bare);
    for (const odd of [
      "123",
      "1e3",
      "0x10",
      "true",
      "No",
      "null",
      "~",
      "",
      "a: b",
      "a #b",
      "- x",
      "1:30",
      "2001-01-01",
      "a\nb",
      ".inf",
      "x:",
    ]) {
      expect(yamlScalar(odd)).toMatch(/^"/);
      expect(parse(yamlScalar(odd))).toBe(odd);
    }
    expect(yamlSingleQuoted("it's")).toBe(`"it's"`);
  });

  test("round-trip", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), (text) => {
        expect(parse(`a: ${yamlScalar(text)}\nb: ${yamlSingleQuoted(text)}`)).toEqual({ a: text, b: text });
      }),
    );
  });
});

describe("a NoCloud drive", () => {
  test("has network-config version 1 as PVE writes it", async () => {
    const { label, files } = await cloudinitDrive(values, facts);
    expect(label).toBe("cidata");
    expect(files["network-config"]).toBe(`version: 1
config:
    - type: physical
      name: eth0
      mac_address: 'bc:24:11:aa:bb:cc'
      subnets:
      - type: static
        address: '10.0.0.2'
        netmask: '255.255.240.0'
        gateway: '10.0.0.1'
      - type: static6
        address: '2001:db8::2/64'
        gateway: '2001:db8::1'
    - type: physical
      name: eth1
      mac_address: 'bc:24:11:00:00:01'
      subnets:
      - type: dhcp4
      - type: ipv6_slaac
    - type: nameserver
      address:
      - '192.0.2.53'
      - '2001:db8::53'
      search:
      - 'node.example'
`);
    const id = facts.sha1((files["user-data"] ?? "") + (files["network-config"] ?? ""));
    expect(files["meta-data"]).toBe(`instance-id: ${id}\n`);
    expect(files["vendor-data"]).toBe("");
  });

  test("uses the VM's own name servers", async () => {
    const { files } = await cloudinitDrive(
      {
        nameserver: "192.0.2.1 192.0.2.2",
        searchdomain: "a.example b.example",
        net0: "e1000=BC:24:11:00:00:03",
        ipconfig0: "gw=10.0.0.1,ip=10.0.0.9/24",
      },
      facts,
    );
    expect(parse(files["network-config"] ?? "")).toMatchObject({
      config: [
        { subnets: [{ address: "10.0.0.9", netmask: "255.255.255.0", gateway: "10.0.0.1" }] },
        { type: "nameserver", address: ["192.0.2.1", "192.0.2.2"], search: ["a.example", "b.example"] },
      ],
    });
  });

  test("can have version 2", async () => {
    const { files } = await cloudinitDrive(values, { ...facts, networkVersion: 2 });
    expect(parse(files["network-config"] ?? "")).toEqual({
      version: 2,
      ethernets: {
        net0: {
          match: { macaddress: "BC:24:11:AA:BB:CC" },
          "set-name": "eth0",
          addresses: ["10.0.0.2/20", "2001:db8::2/64"],
          gateway4: "10.0.0.1",
          gateway6: "2001:db8::1",
          nameservers: { addresses: ["192.0.2.53", "2001:db8::53"], search: ["node.example"] },
        },
        net1: {
          match: { macaddress: "BC:24:11:00:00:01" },
          "set-name": "eth1",
          dhcp4: true,
          "accept-ra": true,
        },
      },
    });
    expect(
      parse(
        networkConfigV2({ net0: "virtio=BC:24:11:00:00:03", ipconfig0: "ip6=dhcp" }, { ...facts, dns: {} }),
      ),
    ).toEqual({
      version: 2,
      ethernets: { net0: { match: { macaddress: "BC:24:11:00:00:03" }, "set-name": "eth0", dhcp6: true } },
    });
    expect(parse(networkConfigV2({}, facts))).toEqual({ version: 2, ethernets: {} });
  });

  test("takes custom snippets for what they replace", async () => {
    const { files } = await cloudinitDrive(
      { ...values, cicustom: "user=local:snippets/u.yaml,vendor=local:snippets/v.yaml" },
      facts,
    );
    expect(files["user-data"]).toBe("text of local:snippets/u.yaml");
    expect(files["vendor-data"]).toBe("text of local:snippets/v.yaml");
    expect(files["network-config"]).toContain("version: 1");
    const all = await cloudinitDrive({ cicustom: "meta=local:snippets/m,network=local:snippets/n" }, facts);
    expect(all.files["meta-data"]).toBe("text of local:snippets/m");
    expect(all.files["network-config"]).toBe("text of local:snippets/n");
  });

  test("refuses snippets that would not fit, and an interface without an address to find it by", async () => {
    const huge = { ...facts, snippet: async () => "x".repeat(3 * 1024 * 1024 + 1) };
    await expect(cloudinitDrive({ cicustom: "user=local:snippets/u" }, huge)).rejects.toThrow(
      "too big (> 3 MiB)",
    );
    await expect(cloudinitDrive({ net0: "virtio", ipconfig0: "ip=dhcp" }, facts)).rejects.toThrow(
      "network interface 'net0' has no mac address",
    );
  });
});

describe("a config drive", () => {
  test("has interfaces for Linux", async () => {
    const { label, files } = await cloudinitDrive({ ...values, citype: "configdrive2" }, facts);
    expect(label).toBe("config-2");
    expect(files["openstack/content/0000"]).toBe(`auto lo
iface lo inet loopback

        dns_nameservers 192.0.2.53 2001:db8::53
        dns_search node.example
auto eth0
iface eth0 inet static
        address 10.0.0.2
        netmask 255.255.240.0
        gateway 10.0.0.1
iface eth0 inet6 static
        address 2001:db8::2
        netmask 64
        gateway 2001:db8::1
auto eth1
iface eth1 inet dhcp
iface eth1 inet6 auto
`);
    const meta = JSON.parse(files["openstack/latest/meta_data.json"] ?? "") as unknown;
    expect(meta).toMatchObject({ network_config: { content_path: "/content/0000" } });
    expect(files["openstack/latest/vendor_data.json"]).toBe("");
  });

  test("is what Windows gets, with password and keys where it looks for them", async () => {
    const { files } = await cloudinitDrive({ ...values, ostype: "win11", cipassword: "plain" }, facts);
    expect(files["openstack/content/0000"]).toContain("        dns-nameservers 192.0.2.53 2001:db8::53\n");
    expect(files["openstack/content/0000"]).not.toContain("loopback");
    expect(JSON.parse(files["openstack/latest/meta_data.json"] ?? "")).toMatchObject({
      admin_pass: "plain",
      public_keys: { "key-0": "ssh-ed25519 AAAA+/ ann@home", "key-1": "ssh-rsa BBBB" },
    });
    const bare = await cloudinitDrive({ ostype: "win10" }, { ...facts, dns: {} });
    expect(JSON.parse(bare.files["openstack/latest/meta_data.json"] ?? "")).not.toHaveProperty("admin_pass");
    expect(bare.files["openstack/content/0000"]).toBe("");
  });
});

describe("an OpenNebula context", () => {
  test("holds shell variables that a shell reads as they were meant", async () => {
    const { label, files } = await cloudinitDrive(
      { ...values, citype: "opennebula", ciuser: "a$(reboot)", ipconfig2: "ip6=dhcp" },
      facts,
    );
    expect(label).toBe("CONTEXT");
    expect(files["context.sh"]).toBe(`USERNAME="a\\$(reboot)"
CRYPTED_PASSWORD_BASE64=${Buffer.from("$5$salt$hash").toString("base64")}
SSH_PUBLIC_KEY="ssh-ed25519 AAAA+/ ann@home
ssh-rsa BBBB"
SET_HOSTNAME=web1
DNS="192.0.2.53 2001:db8::53"
SEARCH_DOMAIN="node.example"
ETH0_IP=10.0.0.2
ETH0_MASK=255.255.240.0
ETH0_MAC=bc:24:11:aa:bb:cc
ETH0_GATEWAY=10.0.0.1
ETH0_IP6=2001:db8::2
ETH0_MASK6=64
ETH0_MAC6=bc:24:11:aa:bb:cc
ETH0_GATEWAY6=2001:db8::1
ETH1_DHCP=YES
ETH1_AUTO6=YES
ETH1_MTU=1400
ETH2_DHCP6=YES
NETWORK=YES
`);
    const empty = await cloudinitDrive({ citype: "opennebula" }, { ...facts, dns: {} });
    expect(empty.files["context.sh"]).toBe("USERNAME=root\nSET_HOSTNAME=VM101\n");
  });
});

describe("a dump", () => {
  test("shows what the configuration alone would make", async () => {
    const { files } = await cloudinitDrive(values, facts);
    const custom = { ...values, cicustom: "user=local:snippets/u" };
    expect(dumpCloudinit(custom, facts, "user")).toBe(files["user-data"]);
    expect(dumpCloudinit(custom, facts, "network")).toBe(files["network-config"]);
    expect(dumpCloudinit(custom, facts, "meta")).toBe(files["meta-data"]);
    const drive = { ...values, citype: "configdrive2" };
    expect(dumpCloudinit(drive, facts, "network")).toContain("iface eth0 inet static");
    expect(dumpCloudinit(drive, facts, "meta")).toContain('"uuid": "sha1-of-');
  });
});

describe("a cloud-init password", () => {
  test("is hashed unless it is a hash or for Windows", () => {
    expect(cloudinitPasswordNeedsHash("secret", {})).toBe(true);
    expect(cloudinitPasswordNeedsHash("$5$salt$hash", {})).toBe(false);
    expect(cloudinitPasswordNeedsHash("$6$rounds=5000$salt$hash", {})).toBe(false);
    expect(cloudinitPasswordNeedsHash("$5$", {})).toBe(true);
    expect(cloudinitPasswordNeedsHash("secret", { ostype: "win10" })).toBe(false);
  });
});
