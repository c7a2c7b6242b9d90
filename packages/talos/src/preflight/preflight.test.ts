import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { describe, expect, test } from "vitest";
import { machinesOf } from "../cluster/machines.ts";
import { PveDriver } from "../driver/pve-driver.ts";
import { guestSettings } from "../plan/guest-config.ts";
import { DEPLOYER_PRIVILEGES, FakePlatform } from "../testing/fake-platform.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { preflight } from "./preflight.ts";

const GIB = 1024 ** 3;
const folder = import.meta.dirname;
function driverOf(platform: FakePlatform): PveDriver {
  return new PveDriver("pve", {
    isRoot: platform.privileges === undefined,
    read: async (path, values = {}) => platform.handle("GET", path, values as Record<string, string>),
    work: () => Promise.reject(new Error("preflight must not change anything")),
    make: () => Promise.reject(new Error("preflight must not make anything")),
    upload: () => Promise.reject(new Error("preflight must not upload anything")),
    close: () => undefined,
  });
}

async function findings(
  change: (platform: FakePlatform) => void = () => undefined,
  more: Readonly<Record<string, unknown>> = {},
): Promise<readonly string[]> {
  const platform = new FakePlatform();
  change(platform);
  const cluster = testCluster(more);
  const result = await preflight({
    cluster,
    machines: machinesOf(cluster),
    folder,
    openDriver: async () => driverOf(platform),
  });
  return result.findings.map(
    ({ id, severity, subject, evidence }) => `${severity} ${id} ${subject}: ${evidence}`,
  );
}

const provider = (more: object) => ({ providers: [{ ...testCluster().providers[0], ...more }] });

const withExtraDisks = {
  controlPlane: { count: 1 },
  pools: [{ name: "store", machine: { extraDisks: [{ gib: 200, storage: "big" }] } }],
};
const withDevice = {
  controlPlane: { count: 1 },
  pools: [{ name: "gpu", machine: { pci: [{ mapping: "gpu0" }] } }],
};

test("a platform that has all of it gives nothing to tell", async () => {
  expect(await findings()).toEqual([]);
});

test.each<[string, (platform: FakePlatform) => void, Readonly<Record<string, unknown>>, string]>([
  [
    "templates of machines that begin from an ISO",
    () => undefined,
    { templates: { controlPlane: 998 }, image: { boot: "iso" } },
    "error template-of-iso templates: image.boot is iso",
  ],
  [
    "templates on a node that nobody has",
    () => undefined,
    { templates: { nodes: ["pve9"] } },
    "error template-node-unknown pve9: providers have pve1, pve2, pve3",
  ],
  [
    "a node that is not there",
    (p) => p.nodes.delete("pve3"),
    {},
    "error node-missing pve3: pve has pve1, pve2",
  ],
  [
    "a node that is off",
    (p) => p.nodes.set("pve2", { status: "offline", maxcpu: 16, maxmem: 64 * GIB, mem: 0 }),
    {},
    "error node-offline pve2: pve2 is offline, and prod-cp-2, prod-worker-2 would be made there",
  ],
  [
    "a storage that is not there",
    (p) => p.storages.pop(),
    {},
    "error storage-missing local-lvm on pve1: active there: local",
  ],
  [
    "a storage that is switched off",
    (p) =>
      (p.storages = p.storages.map((each) => ({ ...each, active: each["storage"] === "local" ? 1 : 0 }))),
    {},
    "error storage-missing local-lvm on pve1",
  ],
  [
    "a storage that takes no images",
    (p) => (p.storages = p.storages.map((each) => ({ ...each, content: "iso,images" }))),
    {},
    "error storage-content local on pve1: takes iso, images; import is missing",
  ],
  [
    "a storage that takes no ISO",
    (p) => (p.storages = p.storages.map((each) => ({ ...each, content: "import,images" }))),
    { image: { boot: "iso" } },
    "error storage-content local on pve1: takes import, images; iso is missing",
  ],
  [
    "an archive that is not there",
    () => undefined,
    { image: { archive: "/nowhere/nocloud-{arch}.raw.xz" } },
    "error image-file-missing image.archive: there is no folder for /nowhere/nocloud-amd64.raw.xz",
  ],
  [
    "the archive of a release that reads no addresses",
    () => undefined,
    { image: { archive: "https://releases.example/{version}/metal-{arch}.raw.xz" } },
    "error platform-of-image image: image.archive is https://releases.example",
  ],
  [
    "secure boot by a disk image that enrols no keys",
    () => undefined,
    { image: { secureboot: true } },
    "error secureboot-needs-iso image: Talos is v1.13.9, image.boot is disk",
  ],
  [
    "secure boot without UEFI",
    () => undefined,
    { image: { secureboot: true, boot: "iso" }, controlPlane: { count: 1, machine: { bios: "seabios" } } },
    "error secureboot-needs-uefi prod-cp-1: bios is seabios, image.secureboot is true",
  ],
  [
    "a TPM that has nothing to judge by",
    () => undefined,
    { talos: { diskEncryption: "tpm" } },
    "warning tpm-without-secureboot talos.diskEncryption: it is tpm, image.secureboot is false",
  ],
  [
    "a storage that may run full",
    (p) => (p.storages = p.storages.map((each) => ({ ...each, avail: 50 * GIB }))),
    {},
    "warning storage-full local-lvm on pve1: 50 GiB free, disks of 120 GiB",
  ],
  [
    "no bridge",
    (p) => (p.bridges = [{ iface: "vmbr1" }]),
    {},
    "error bridge-missing vmbr0 on pve1: there: vmbr1",
  ],
  [
    "large packets on a small bridge",
    () => undefined,
    { network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", mtu: 9000 } },
    "error mtu-too-large vmbr0 on pve1: network.mtu is 9000, the bridge's 1500",
  ],
  [
    "a VMID that another guest has",
    (p) => p.guests.set(2001, { node: "pve3", status: "running", config: { name: "mail" } }),
    {},
    "error vmid-taken prod-cp-2: VMID 2001 is mail on pve3",
  ],
  [
    "a guest that only carries our tag",
    (p) => p.guests.set(2001, { node: "pve3", status: "running", config: { name: "x", tags: "talos-prod" } }),
    {},
    "error vmid-taken prod-cp-2",
  ],
  [
    "an address that another guest has",
    (p) =>
      p.guests.set(100, {
        node: "pve1",
        status: "running",
        config: { name: "dns", ipconfig0: "ip=10.0.0.20/24,gw=10.0.0.1" },
      }),
    {},
    "error address-taken prod-worker-1: 10.0.0.20 is dns's (VMID 100)",
  ],
  [
    "memory that is nearly used up: a warning",
    (p) => p.nodes.set("pve1", { status: "online", maxcpu: 16, maxmem: 16 * GIB, mem: 4 * GIB }),
    {},
    "warning memory-tight pve1: 16384 MiB needed, 10649 MiB free beside a reserve of 10 %",
  ],
  [
    "a machine that is larger than its node: an error",
    (p) => p.nodes.set("pve1", { status: "online", maxcpu: 2, maxmem: 4 * GIB, mem: 0 }),
    {},
    "error memory-short prod-cp-1: 8192 MiB on pve1, which has 4096 MiB",
  ],
  [
    "more cores than the node has",
    (p) => p.nodes.set("pve1", { status: "online", maxcpu: 2, maxmem: 64 * GIB, mem: 0 }),
    {},
    "error cores-exceeded prod-cp-1: 4 cores on pve1, which has 2",
  ],
  ["no pool", () => undefined, provider({ pool: "k8s" }), "error pool-missing k8s: there: none"],
  [
    "an old platform",
    (p) => (p.version = "8.2.4"),
    provider({ type: "pve-api", endpoint: "https://pve:8006", tokenRef: { env: "T" } }),
    "error platform-version pve: it is 8.2.4",
  ],
  [
    "a token without one privilege",
    (p) =>
      (p.privileges = (path) =>
        DEPLOYER_PRIVILEGES.filter((name) => !(path === "/vms" && name === "VM.Config.Disk"))),
    {},
    "error privilege-missing /vms: missing: VM.Config.Disk",
  ],
  [
    "a token that may not use the bridge",
    (p) => (p.privileges = (path) => (path.startsWith("/sdn") ? [] : DEPLOYER_PRIVILEGES)),
    {},
    "error privilege-missing /sdn/zones/localnetwork/vmbr0: missing: SDN.Use",
  ],
  [
    "a token that may not make the account of an add-on",
    (p) => (p.privileges = () => DEPLOYER_PRIVILEGES),
    {},
    "warning addon-account pve: for proxmox-ccm the token lacks Sys.Modify on /access, Realm.AllocateUser on /access/realm/pve, User.Modify on /access/groups, Permissions.Modify on /vms",
  ],
  [
    "a platform that pods would look for in themselves",
    (p) => (p.subnet = "127.0.0"),
    {},
    "warning addon-endpoint pve: for proxmox-ccm there is only the name pve1",
  ],
  [
    "a token that may not use the storage of a disk beside the system's",
    (p) => {
      p.storages.push({ storage: "big", active: 1, enabled: 1, content: "images", avail: 1000 * GIB });
      p.privileges = (path) => (path === "/storage/big" ? ["Datastore.Audit"] : DEPLOYER_PRIVILEGES);
    },
    withExtraDisks,
    "error privilege-missing /storage/big: missing: Datastore.AllocateSpace",
  ],
  [
    "a storage that disks beside the system's may fill",
    (p) => p.storages.push({ storage: "big", active: 1, enabled: 1, content: "images", avail: 50 * GIB }),
    withExtraDisks,
    "warning storage-full big on pve2: 50 GiB free, disks of 200 GiB",
  ],
  [
    "a device that is not mapped",
    (p) => (p.mappings = [{ id: "nic0", map: ["node=pve1,path=0000:01:00.0,id=10de:1"] }]),
    withDevice,
    "error mapping-missing gpu0 on pve2: mappings there: nic0",
  ],
  [
    "a device that is mapped on another node",
    (p) => (p.mappings = [{ id: "gpu0", map: ["node=pve1,path=0000:01:00.0,id=10de:1"] }]),
    withDevice,
    "error mapping-missing gpu0 on pve2: it has devices on pve1",
  ],
  [
    "a token that may not use a mapped device",
    (p) => (p.privileges = (path) => (path.startsWith("/mapping") ? [] : DEPLOYER_PRIVILEGES)),
    withDevice,
    "error privilege-missing /mapping/pci/gpu0: missing: Mapping.Use",
  ],
  [
    "a controller for each disk",
    () => undefined,
    { controlPlane: { count: 1, machine: { scsihw: "virtio-scsi-single" } } },
    "warning scsi-single prod-cp-1: scsihw is virtio-scsi-single",
  ],
  [
    "an old CPU",
    () => undefined,
    { controlPlane: { count: 1, machine: { cpu: "kvm64" } } },
    "error cpu-too-old prod-cp-1: cpu is kvm64",
  ],
  [
    "a small machine",
    () => undefined,
    { controlPlane: { count: 1, machine: { memoryMiB: 1024 } } },
    "warning machine-small prod-cp-1: 4 cores, 1024 MiB, 40 GiB of disk",
  ],
  ["an image for metal", () => undefined, { image: { platform: "metal" } }, "error platform-of-image image"],
  [
    "arm machines by a token",
    () => undefined,
    {
      ...provider({ type: "pve-api", endpoint: "https://pve:8006", tokenRef: { env: "T" } }),
      pools: [{ name: "arm", arch: "arm64" }],
    },
    "warning arch-needs-root prod-arm-1: arch is arm64, set with a token",
  ],
])("%s", async (_what, change, more, expected) => {
  const found = await findings(change, more);
  expect(
    found.some((line) => line.startsWith(expected)),
    found.join("\n"),
  ).toBe(true);
});

test("a device is told once: as one that may not be used, or as one that is not there", async () => {
  const hidden = (platform: FakePlatform): void => {
    platform.privileges = (path) => (path.startsWith("/mapping") ? [] : DEPLOYER_PRIVILEGES);
  };
  const told = (await findings(hidden, withDevice)).filter((line) => line.includes("gpu0"));
  expect(told).toEqual(["error privilege-missing /mapping/pci/gpu0: missing: Mapping.Use"]);
  const mapped = ["pve1", "pve2"].map((node) => `id=10de:1,node=${node},path=0000:01:00.0`);
  const there = (platform: FakePlatform) => (platform.mappings = [{ id: "gpu0", map: mapped }]);
  expect(await findings(there, withDevice)).toEqual([]);
});

test("our own machines are neither in the way nor counted again", async () => {
  const cluster = testCluster();
  const machines = machinesOf(cluster);
  const found = await findings((platform) => {
    for (const machine of machines) {
      const config = { ...guestSettings(cluster, machine) };
      platform.guests.set(machine.vmid, { node: machine.host, status: "running", config });
    }
    platform.nodes.set("pve1", { status: "online", maxcpu: 16, maxmem: 16 * GIB, mem: 15 * GIB });
  });
  expect(found).toEqual([]);
});

test("what a machine that is there still needs is looked at; what only a new one gets is told", async () => {
  const size = { extraDisks: [{ gib: 200, storage: "big" }], pci: [{ mapping: "gpu0" }] };
  const file = { controlPlane: { count: 1, machine: size }, pools: [] };
  const cluster = testCluster(file);
  const found = (more: Readonly<Record<string, string>>) =>
    findings((platform) => {
      platform.storages.push({ storage: "big", active: 1, enabled: 1, content: "images", avail: 1000 * GIB });
      platform.privileges = (path) => (path === "/storage/big" ? ["Datastore.Audit"] : DEPLOYER_PRIVILEGES);
      for (const machine of machinesOf(cluster)) {
        const config = { ...guestSettings(cluster, machine), ...more };
        platform.guests.set(machine.vmid, { node: machine.host, status: "running", config });
      }
    }, file);
  expect(await found({})).toEqual([
    "error privilege-missing /storage/big: missing: Datastore.AllocateSpace",
    "error privilege-missing /mapping/pci/gpu0: missing: Mapping.Use",
  ]);
  const devices = { scsi1: "big:vm-2000-disk-1,size=200G", hostpci0: "mapping=gpu0,pcie=1" };
  expect(await found({ ...devices, bios: "ovmf", ide2: "local-lvm:vm-2000-cloudinit" })).toEqual([]);
  const other = {
    bios: "seabios",
    scsi0: "local:2000/vm-2000-disk-0.qcow2,size=40G",
    scsi1: "local-lvm:vm-2000-disk-1,size=200G",
    hostpci0: "mapping=gpu1,pcie=1",
    scsi30: "local:2000/vm-2000-cloudinit.qcow2,media=cdrom",
  };
  expect(await found(other)).toEqual([
    "warning replace-needed prod-cp-1: bios is seabios, the file says ovmf; the cloud-init drive is scsi30, the file says ide2; the storage of scsi0 is local, the file says local-lvm; the storage of scsi1 is local-lvm, the file says big; the mapping of hostpci0 is gpu1, the file says gpu0",
  ]);
});

test("control planes that a lock puts on one node are told: an error while they can still go elsewhere", async () => {
  const cluster = testCluster({ placement: { spread: "required" } });
  const pin = (vmid: number, ip: string) => ({ provider: "pve", host: "pve1", vmid, addresses: [ip] });
  const machines = machinesOf(cluster, {
    "prod-cp-1": pin(2000, "10.0.0.10"),
    "prod-cp-2": pin(2001, "10.0.0.11"),
  });
  const platform = new FakePlatform();
  const spread = async () => {
    const openDriver = async () => driverOf(platform);
    const { findings: found } = await preflight({ cluster, machines, folder, openDriver });
    return found.map(({ id, severity, subject, evidence }) => `${severity} ${id} ${subject}: ${evidence}`);
  };
  expect(await spread()).toEqual(["error spread-impossible prod-cp-2: on pve1 beside prod-cp-1"]);
  for (const machine of machines) {
    const config = { ...guestSettings(cluster, machine) };
    platform.guests.set(machine.vmid, { node: machine.host, status: "running", config });
  }
  expect(await spread()).toEqual(["warning spread-impossible prod-cp-2: on pve1 beside prod-cp-1"]);
});

test.each([
  [new AppError("node.unavailable", "cannot reach it: refused"), "platform-unreachable"],
  [new AppError("request.timeout", "no answer"), "platform-unreachable"],
  [
    new AppError("node.unavailable", "not trusted", { data: { untrusted: true, fingerprint: "AB" } }),
    "platform-untrusted",
  ],
  [new AppError("auth.failed", "no such token"), "credentials-wrong"],
  [new AppError("access.denied", "Permission check failed"), "privilege-missing"],
  [new AppError("config.invalid", "not set", { data: { finding: "secret-reference" } }), "secret-reference"],
])("%s is the finding %s", async (failure, id) => {
  const cluster = testCluster();
  const { findings: found } = await preflight({
    cluster,
    machines: machinesOf(cluster),
    folder,
    openDriver: () => Promise.reject(failure),
  });
  expect(found.map((finding) => finding.id)).toEqual([id]);
});

test("a mistake of our own is not taken for the platform's", async () => {
  const cluster = testCluster();
  const broken = preflight({
    cluster,
    machines: [],
    folder,
    openDriver: () => Promise.reject(new TypeError("oops")),
  });
  await expect(broken).rejects.toThrow("oops");
});

test("a node that is off is a warning where nothing is to be made, wherever machines are by now", async () => {
  const cluster = testCluster();
  const made = (p: FakePlatform): void => {
    for (const machine of machinesOf(cluster)) {
      const config = { ...guestSettings(cluster, machine) };
      // One that others moved and gave another VMID is there all the same.
      const isMoved = machine.name === "prod-worker-2";
      const node = isMoved ? "pve3" : machine.host;
      p.guests.set(isMoved ? 8000 : machine.vmid, { node, status: "running", config });
    }
    p.nodes.set("pve2", { status: "offline", maxcpu: 16, maxmem: 64 * GIB, mem: 0 });
  };
  expect(await findings(made)).toEqual(["warning node-offline pve2: pve2 is offline"]);
});

describe("a VNet", () => {
  const more = { network: { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1", bridge: "inner" } };
  const vnet = (p: FakePlatform, isTold: boolean, mtu?: number): void => {
    p.bridges = [{ iface: "inner", type: "vnet" }];
    p.vnets = isTold ? [{ vnet: "inner", zone: "east" }] : [];
    p.zones = [{ zone: "east", type: "vxlan", ...given({ mtu }) }];
  };
  const usable = (path: string) => (p: FakePlatform) => {
    p.privileges = (asked) =>
      asked.startsWith("/sdn") && asked !== path
        ? []
        : [...DEPLOYER_PRIVILEGES, "Sys.Modify", "Realm.AllocateUser", "User.Modify", "Permissions.Modify"];
  };

  test("is used with a privilege on its zone, or on what only who may use it is shown", async () => {
    expect(await findings((p) => (vnet(p, true), usable("/sdn/zones/east/inner")(p)), more)).toEqual([]);
    expect(await findings((p) => (vnet(p, true), usable("/nowhere")(p)), more)).toEqual([
      "error privilege-missing /sdn/zones/east/inner: missing: SDN.Use",
    ]);
    expect(await findings((p) => (vnet(p, false), usable("/nowhere")(p)), more)).toEqual([]);
  });

  test("has the MTU of its zone, which machines that take 1500 by themselves may pass over", async () => {
    const small = await findings((p) => vnet(p, true, 1450), more);
    expect(small).toHaveLength(3);
    expect(small[0]).toBe(
      "warning mtu-small inner on pve1: its MTU is 1450, and machines with network.mtu auto have 1500",
    );
    const large = { network: { ...more.network, mtu: 8950 } };
    expect(await findings((p) => vnet(p, true, 8950), large)).toEqual([]);
    expect(await findings((p) => vnet(p, false), large)).toEqual([]);
    const told = await findings((p) => vnet(p, true, 1450), large);
    expect(told[0]).toBe("error mtu-too-large inner on pve1: network.mtu is 8950, the bridge's 1450");
  });
});

test("a bridge that carries less than 1500 is told of", async () => {
  const told = await findings((p) => (p.bridges = [{ iface: "vmbr0", type: "bridge", mtu: "1400" }]));
  expect(told[0]).toContain("warning mtu-small vmbr0 on pve1");
});
