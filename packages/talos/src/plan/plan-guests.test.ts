import { expect, test } from "vitest";
import type { Cluster } from "../cluster/cluster.ts";
import { machinesOf } from "../cluster/machines.ts";
import { imageFile } from "../image/image-file.ts";
import { machineUuid } from "../machine/identity.ts";
import { testCluster } from "../testing/test-cluster.ts";
import { compareGuest, diskGib } from "./compare-guest.ts";
import { guestSettings, newGuest } from "./guest-config.ts";
import type { Desired } from "../engine/desired.ts";
import { guestsWorld } from "../engine/observe/look-at-guests.ts";
import { makeTrace } from "../engine/make-trace.ts";
import { testDesired } from "../testing/test-desired.ts";
import type { GuestStep } from "./plan-steps.ts";
import { type CommandFacts, stepCommand, stepText } from "./step-text.ts";

interface Given {
  readonly images?: readonly string[];
  readonly pinned?: Desired["pinned"];
  readonly guests?: readonly {
    readonly vmid: number;
    readonly name: string;
    readonly isRunning?: boolean;
    readonly isTemplate?: boolean;
    readonly config: Readonly<Record<string, string>>;
  }[];
}

/** Machines alone; what runs in them is tested with what is decided about it. */
function planOf(
  cluster: Cluster,
  { images = [], guests = [], pinned = {} }: Given = {},
  only: Desired["only"] = "infrastructure",
) {
  const observed = {
    name: "pve",
    observation: { version: "9.0", nodes: [], guests: [], pools: [] },
    images: new Map([["pve1", images]]),
    sharesImages: true,
    sharesDisks: true,
    templates: [],
    guests: guests.map(({ config, ...guest }) => ({
      config,
      guest: {
        host: "pve1",
        isRunning: true,
        isTemplate: false,
        memoryMiB: 0,
        tags: (config["tags"] ?? "").split(";"),
        ...guest,
      },
    })),
  };
  const desired = testDesired(cluster, { only, pinned });
  const { steps, findings } = makeTrace(desired, guestsWorld(cluster, desired.machines, [observed], 0));
  return { steps, findings };
}

/** Guests as an earlier apply left them. */
function made(cluster: Cluster) {
  return machinesOf(cluster).map((machine) => ({
    vmid: machine.vmid,
    name: machine.name,
    config: {
      ...guestSettings(cluster, machine),
      scsi0: `local-lvm:vm-1-disk-0,size=${machine.size.diskGiB}G`,
    },
  }));
}

const small = testCluster({ controlPlane: { count: 1 }, pools: [] });

test("from nothing: the image once, then each machine is made, grown and started", () => {
  const { steps, findings } = planOf(testCluster());
  expect(findings).toEqual([]);
  expect(steps.map(({ kind, subject }) => `${kind} ${subject}`).slice(0, 4)).toEqual([
    `image.ensure ${imageFile(testCluster(), "amd64").name}`,
    "guest.create prod-cp-1",
    "guest.resize prod-cp-1",
    "guest.start prod-cp-1",
  ]);
  expect(steps).toHaveLength(1 + 3 * 5);
});

test("an image of the offline directory is uploaded", () => {
  const { name } = imageFile(small, "amd64");
  const [step] = planOf({ ...small, image: { ...small.image, offlineDir: "images" } }).steps;
  if (step === undefined) throw new Error("no step");
  expect(stepText(step)).toBe(`+ upload ${name} to local on pve1`);
  expect(stepCommand(step)).toBe(`gpvectl storage upload local images/${name} --node pve1 --content import`);
});

test("of an image that is held to a checksum the command says it", () => {
  const { name } = imageFile(small, "amd64");
  const [one, other] = ["1", "2"].map((digit) => digit.repeat(64));
  const commandOf = (cluster: Cluster): string => {
    const [step] = planOf(cluster, { pinned: { [name]: one ?? "" } }).steps;
    return step === undefined ? "" : stepCommand(step);
  };
  expect(commandOf(small)).toMatch(new RegExp(` --checksum ${one} --checksum-algorithm sha256$`));
  const said = { ...small, image: { ...small.image, sha256: other ?? "" } };
  expect(commandOf(said)).toContain(` --checksum ${other} `);
  const offline = { ...small, image: { ...small.image, offlineDir: "images" } };
  expect(commandOf(offline)).toMatch(new RegExp(` --checksum sha256:${one}$`));
});

test("an image that is there is not fetched again", () => {
  const images = [`local:import/${imageFile(small, "amd64").name}`];
  expect(planOf(small, { images }).steps.map(({ kind }) => kind)).toEqual([
    "guest.create",
    "guest.resize",
    "guest.start",
  ]);
});

test("what is as it should be needs nothing", () => {
  const cluster = testCluster();
  expect(planOf(cluster, { guests: made(cluster) })).toEqual({ steps: [], findings: [] });
});

test("differences are named, and changed where the machine is off", () => {
  const [guest] = made(small);
  const changed = {
    ...guest,
    isRunning: false,
    config: { ...guest?.config, cores: "2", tags: "talos-prod;old" },
  };
  const { steps } = planOf(small, { guests: [changed as never] });
  expect(steps).toMatchObject([
    {
      kind: "guest.change",
      impact: "safe",
      changes: [
        { key: "cores", from: "2", to: "4" },
        { key: "tags", from: "talos-prod;old", to: "talos-prod" },
      ],
    },
    { kind: "guest.start" },
  ]);
  expect(steps.map((step) => stepText(step))[0]).toBe(
    "~ change prod-cp-1: cores 2 -> 4; tags talos-prod;old -> talos-prod",
  );
  const hot = { ...guest, config: { ...guest?.config, tags: "talos-prod;old" } };
  expect(planOf(small, { guests: [hot as never] }).steps).toMatchObject([{ kind: "guest.change" }]);
});

test("name servers are changed while machines run; a way out is read when they start", () => {
  const network = { nodeCIDR: "10.0.0.0/24", gateway: "10.0.0.1" };
  const size = { controlPlane: { count: 1 }, pools: [] };
  const guests = made(testCluster({ ...size, network: { ...network, dns: ["10.0.0.2"] } }));
  const steps = (more: object) =>
    planOf(testCluster({ ...size, network: { ...network, ...more } }), { guests }).steps;
  expect(steps({ dns: ["10.0.0.3"], search: ["lan"] })).toMatchObject([
    {
      kind: "guest.change",
      impact: "safe",
      changes: [
        { key: "nameserver", from: "10.0.0.2", to: "10.0.0.3" },
        { key: "searchdomain", from: null, to: "lan" },
      ],
    },
  ]);
  expect(steps({ dns: ["10.0.0.2"], gateway: "10.0.0.254" })).toEqual([]);
});

test("disks grow, and never shrink", () => {
  const [guest] = made(small);
  const sized = (size: string) =>
    planOf(small, {
      guests: [{ ...guest, config: { ...guest?.config, scsi0: `x:y,size=${size}` } } as never],
    });
  expect(sized("20G").steps).toMatchObject([{ kind: "guest.resize", disk: "scsi0", gib: 40 }]);
  expect(sized("1T")).toMatchObject({ steps: [], findings: [{ id: "disk-shrinks", subject: "prod-cp-1" }] });
  expect(["1246M", "41943040K", "2T", "1073741824"].map((size) => diskGib(`a:b,size=${size}`))).toEqual([
    2, 40, 2048, 1,
  ]);
  expect(diskGib("a:b")).toBeUndefined();
});

test("disks and devices that the file came to want are added, and disks beside the system's grow", () => {
  const wanted = testCluster({
    controlPlane: {
      count: 1,
      machine: {
        extraDisks: [
          { gib: 200, storage: "ceph" },
          { gib: 50, storage: "local-lvm" },
        ],
        pci: [{ mapping: "gpu0" }],
      },
    },
    pools: [],
  });
  const [guest] = made(wanted);
  const having = (more: object, isRunning = true) =>
    planOf(wanted, { guests: [{ ...guest, isRunning, config: { ...guest?.config, ...more } } as never] });
  const added = [
    { key: "scsi1", from: null, to: "ceph:200,discard=on" },
    { key: "scsi2", from: null, to: "local-lvm:50,discard=on" },
    { key: "hostpci0", from: null, to: "mapping=gpu0,pcie=1" },
  ];
  expect(having({}, false).steps).toMatchObject([
    { kind: "guest.change", changes: added },
    { kind: "guest.start" },
  ]);
  // One that runs is emptied first, as for other cores.
  expect(having({}).steps).toEqual([]);
  const all = { hostpci0: "pcie=1,mapping=gpu0", scsi2: "local-lvm:vm-2000-disk-2,size=50G" };
  expect(having({ ...all, scsi1: "ceph:vm-2000-disk-1,discard=on,size=100G" }).steps).toMatchObject([
    { kind: "guest.resize", disk: "scsi1", gib: 200 },
  ]);
  expect(having({ ...all, scsi1: "ceph:vm-2000-disk-1,size=300G" }).findings).toMatchObject([
    { id: "disk-shrinks", evidence: "scsi1 has 300 GiB, the file says 200" },
  ]);
  // It lies elsewhere: another disk than the one that is wanted.
  expect(having({ ...all, scsi1: "local-lvm:vm-2000-disk-1,size=100G" })).toEqual({
    steps: [],
    findings: [],
  });
});

test("only what is ours by tag and identity is seen as left over", () => {
  const config = (uuid: string, tags = "talos-prod") => ({ tags, smbios1: `uuid=${uuid}` });
  const name = "prod-worker-9";
  const ours = machineUuid("prod", name);
  const guest = (vmid: number, more: object) => ({
    guest: {
      vmid,
      name,
      host: "pve1",
      isRunning: false,
      isTemplate: false,
      memoryMiB: 0,
      tags: ["talos-prod"],
      ...more,
    },
  });
  const guests = [
    { ...guest(3008, {}), config: config(ours) },
    { ...guest(3009, { tags: ["other"], name: "prod-worker-8" }), config: config(ours, "other") },
    { ...guest(3010, { name: "renamed" }), config: config(ours) },
    { ...guest(3011, { name: "mail" }), config: config("00000000-0000-0000-0000-000000000000") },
    {
      ...guest(9000, { isTemplate: true, name: "prod-worker-7" }),
      config: config(machineUuid("prod", "prod-worker-7")),
    },
  ];
  const observed = {
    name: "pve",
    observation: { version: "9.0", nodes: [], guests: [], pools: [] },
    images: new Map(),
    sharesImages: false,
    sharesDisks: false,
    templates: [],
    guests,
  };
  const { machines } = guestsWorld(small, machinesOf(small), [observed], 0);
  expect([...machines.values()].map(({ name: each, guest: seen }) => [each, seen?.place.vmid])).toEqual([
    ["prod-cp-1", undefined],
    ["prod-worker-9", 3008],
  ]);
});

test("spellings that mean the same are no difference", () => {
  const wanted = {
    net0: "virtio=BC:24:11:00:00:01,bridge=vmbr0",
    cpu: "host",
    agent: "1",
    balloon: "0",
    tags: "a;b",
  };
  const actual = {
    net0: "bridge=vmbr0,virtio=bc:24:11:00:00:01,firewall=0",
    cpu: "cputype=host",
    agent: "enabled=1,fstrim_cloned_disks=0",
    tags: "b,a",
  };
  expect(compareGuest(wanted, actual)).toEqual([]);
});

test("a new guest has its addresses before any configuration, and a disk of the image", () => {
  const cluster = testCluster({
    network: {
      nodeCIDR: "10.0.0.0/24",
      nodeCIDR6: "fd00::/64",
      gateway: "10.0.0.1",
      vlan: 20,
      mtu: 1400,
      dns: ["10.0.0.2"],
    },
    talos: { diskEncryption: "tpm" },
    pools: [
      {
        name: "gpu",
        arch: "arm64",
        machine: { extraDisks: [{ gib: 200, storage: "ceph" }], pci: [{ mapping: "gpu0" }], bios: "seabios" },
      },
    ],
  });
  const [first, ...others] = machinesOf(cluster);
  const last = others.at(-1);
  if (first === undefined || last === undefined) throw new Error("no machines");
  expect(newGuest(cluster, first)).toMatchObject({
    ipconfig0: "ip=10.0.0.10/24,gw=10.0.0.1,ip6=fd00::a/64",
    net0: `virtio=${first.mac},bridge=vmbr0,tag=20,mtu=1400`,
    scsi0: `local-lvm:0,import-from=local:import/${imageFile(cluster, "amd64").name},discard=on`,
    efidisk0: "local-lvm:1,efitype=4m,pre-enrolled-keys=0",
    tpmstate0: "local-lvm:1,version=v2.0",
    ide2: "local-lvm:cloudinit",
    agent: "1",
    nameserver: "10.0.0.2",
  });
  expect(newGuest(cluster, last)).toMatchObject({
    scsi1: "ceph:200,discard=on",
    hostpci0: "mapping=gpu0,pcie=1",
    arch: "aarch64",
    scsi30: "local-lvm:cloudinit",
  });
  expect(newGuest(cluster, last)).not.toHaveProperty("efidisk0");
});

const facts: CommandFacts = {
  addressOf: () => "10.0.0.10",
  hostnameOf: () => "node-one",
  installerOf: () => "factory.talos.dev/nocloud-installer/abc",
  besides: () => "10.0.0.11",
  hasManyHosts: false,
  hasManyProviders: false,
};

test("every step can be typed by hand", () => {
  const { steps } = planOf(small);
  const commands = steps.map((step) => stepCommand(step));
  expect(commands[0]).toMatch(
    /^pvesh create \/nodes\/pve1\/storage\/local\/download-url --content import --filename talos-/,
  );
  expect(commands[1]).toMatch(/^qm create 2000 --name prod-cp-1 --cores 4 /);
  expect(commands.slice(2)).toEqual(["qm resize 2000 scsi0 40G", "qm start 2000"]);
  const place = { host: "pve1", vmid: 2000 };
  const common = { provider: "pve", subject: "it's", place };
  const changes = [{ key: "tags", from: null, to: "a;b" }];
  expect(stepCommand({ kind: "guest.change", impact: "safe", ...common, changes })).toBe(
    "qm set 2000 --tags 'a;b'",
  );
  expect(stepText({ kind: "guest.change", impact: "safe", ...common, changes })).toContain(
    "tags (unset) -> a;b",
  );
  const removal = { kind: "guest.delete", impact: "destructive", ...common } as const;
  expect(stepCommand(removal)).toBe("qm destroy 2000 --purge 1");
  expect(stepText(removal)).toBe("- delete it's: VMID 2000 on pve1, with its disks");
  expect(steps.map((step) => stepText(step))[0]).toMatch(/^\+ download talos-/);
});

test("commands say their host where there are several, and their platform", () => {
  const many = { ...facts, hasManyHosts: true };
  const { steps } = planOf(small);
  expect(steps.slice(1).map((step) => stepCommand(step, many).replace(/(--cores 4) .*/, "$1"))).toEqual([
    "pvesh create /nodes/pve1/qemu --vmid 2000 --name prod-cp-1 --cores 4",
    "pvesh set /nodes/pve1/qemu/2000/resize --disk scsi0 --size 40G",
    "pvesh create /nodes/pve1/qemu/2000/status/start",
  ]);
  const place = { host: "pve2", vmid: 2000 };
  const common = { provider: "pve", subject: "prod-cp-1", place } as const;
  const clone = {
    kind: "guest.clone",
    impact: "safe",
    ...common,
    from: { host: "pve1", vmid: 998 },
    template: "prod-tpl-cp",
    isFull: false,
    hostname: "prod-cp-1",
    mark: "to become it",
    pool: "k8s",
  } as const;
  const changes = [{ key: "tags", from: null, to: "a;b" }];
  const all: readonly GuestStep[] = [
    clone,
    { kind: "guest.change", impact: "safe", ...common, changes },
    { kind: "template.seal", impact: "safe", ...common },
    { kind: "guest.stop", impact: "disruptive", ...common },
    { kind: "guest.stop", impact: "disruptive", ...common, comesBack: true },
    { kind: "guest.delete", impact: "destructive", ...common },
  ];
  expect(all.map((step) => stepCommand(step, many))).toEqual([
    "pvesh create /nodes/pve1/qemu/998/clone --newid 2000 --name prod-cp-1 --description 'to become it' --full 0 --target pve2 --pool k8s",
    "pvesh set /nodes/pve2/qemu/2000/config --tags 'a;b'",
    "pvesh create /nodes/pve2/qemu/2000/template",
    "pvesh create /nodes/pve2/qemu/2000/status/stop",
    "pvesh create /nodes/pve2/qemu/2000/status/shutdown",
    "pvesh delete /nodes/pve2/qemu/2000 --purge 1",
  ]);
  const [, , , stop, away] = all;
  expect(away && [stepCommand(away), stepText(away)]).toEqual(["qm shutdown 2000", "~ shut down prod-cp-1"]);
  expect(stop && stepCommand(stop, { ...many, hasManyProviders: true })).toBe(
    "pvesh create /nodes/pve2/qemu/2000/status/stop  # on pve",
  );
});

test("commands inside the machines name them, their installer and who is left of etcd", () => {
  const subject = "prod-cp-1";
  const versions = { subject, from: "v1.13.8", to: "v1.13.9" } as const;
  expect(
    [
      { kind: "talos.upgrade", impact: "disruptive", ...versions } as const,
      { kind: "etcd.remove", impact: "disruptive", subject, member: "17" } as const,
      { kind: "node.drain", impact: "disruptive", subject } as const,
      { kind: "etcd.join", impact: "safe", subject } as const,
    ].map((step) => stepCommand(step, facts)),
  ).toEqual([
    "talosctl -n 10.0.0.10 upgrade --image factory.talos.dev/nocloud-installer/abc:v1.13.9",
    "talosctl -n 10.0.0.11 etcd remove-member 17",
    "kubectl drain node-one --ignore-daemonsets --delete-emptydir-data",
    "# wait until prod-cp-1 is a member of etcd",
  ]);
});
