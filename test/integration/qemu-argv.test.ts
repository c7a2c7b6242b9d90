// The generated command line on the QEMU that is installed: it must accept it, come up and answer, and take plugged
// devices. CPUs stay stopped (-S), so no case needs more than a moment.
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { QmpConnection } from "@gpve/agent/infrastructure/qmp/qmp-connection.ts";
import { bootSector } from "@gpve/agent/testing/boot-sector.ts";
import { emptyQcow2 } from "@gpve/domain/image/empty-qcow2.ts";
import type { CommandInput, QemuCommand } from "@gpve/domain/vm/argv/command-input.ts";
import { firmwareTable, type HostFacts } from "@gpve/domain/vm/argv/host-facts.ts";
import {
  plugCpu,
  plugDrive,
  plugMemory,
  plugNic,
  type QmpCommand,
} from "@gpve/domain/vm/argv/device/hotplug-arguments.ts";
import { memoryModules } from "@gpve/domain/vm/argv/processor/memory.ts";
import { qemuCommand } from "@gpve/domain/vm/argv/qemu-command.ts";
import { featuresOf } from "@gpve/domain/vm/argv/machine/qemu-features.ts";
import { sampleHost, samplePaths } from "@gpve/domain/vm/argv/testing/sample-host.ts";
import { requireDrive } from "@gpve/domain/vm/config/drive.ts";
import type { VmValues } from "@gpve/domain/vm/config/vm-config.ts";
import { readVmProperty } from "@gpve/domain/vm/config/vm-properties.ts";
import { exec } from "@gpve/kit/exec.ts";
import { type Child, startChild } from "@gpve/kit/testing/child.ts";

const QEMU = "/usr/bin/qemu-system-x86_64";
const FIRMWARE = "/usr/share/OVMF";
const SWTPM = "/usr/bin/swtpm";
const present = existsSync(QEMU);
if (!present) console.warn(`SKIPPED generated command lines: no ${QEMU}: apt-get install qemu-system-x86`);
if (!existsSync(FIRMWARE)) console.warn("SKIPPED OVMF cases: apt-get install ovmf");
if (!existsSync(SWTPM)) console.warn("SKIPPED TPM case: apt-get install swtpm");

const UUID = "7b10d7af-b932-4c66-b2c3-3996152ec465";
const NIC = "BC:24:11:00:00:01";
const BASE = { memory: "64", smbios1: `uuid=${UUID}`, vmgenid: "c773c261-d800-4348-9f5d-167fadd53cf8" };

let folder = "";
let host: HostFacts;
let children: Child[] = [];

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpve-argv-"));
  if (!present) return;
  const { stdout } = await exec(QEMU, ["--version"]);
  const qemuVersion = /version ([\d.]+)/.exec(stdout)?.[1] ?? "";
  const { spice: _, ...facts } = sampleHost();
  host = {
    ...facts,
    qemuVersion,
    features: featuresOf(qemuVersion),
    kvmUsable: false,
    ioUring: false,
    firmware: firmwareTable(FIRMWARE, (name) =>
      existsSync(join(FIRMWARE, name)) ? statSync(join(FIRMWARE, name)).size : undefined,
    ),
  };
});

afterEach(async () => {
  for (const child of children) await child.stop();
  children = [];
});

afterAll(() => rmSync(folder, { recursive: true, force: true }));

const small: Readonly<Record<string, VmValues>> = {
  "an i440fx guest with nothing": {},
  "a q35 guest with nothing": { machine: "q35" },
  "IDE, SATA and CD drives": {
    ide0: "store:a.raw",
    ide2: "store:iso/cd.iso,media=cdrom",
    ide3: "none,media=cdrom",
    sata0: "store:b.raw",
    sata5: "store:c.qcow2",
    boot: "order=ide0;ide2;sata0",
  },
  "IDE and SATA on q35": { machine: "q35", ide0: "store:a.raw", ide1: "store:b.raw", sata1: "store:c.qcow2" },
  "VirtIO disks on all buses": {
    virtio0: "store:a.raw,discard=on,iothread=1,serial=x%2Cy",
    virtio15: "store:c.qcow2,cache=writeback,mbps=10,iops_rd=5,iops_rd_max=10,iops_rd_max_length=2",
  },
  "the default SCSI controller, three of them": {
    scsi0: "store:a.raw,ssd=1",
    scsi8: "store:b.raw,cache=directsync",
    scsi15: "store:c.qcow2",
  },
  "three SCSI controllers on q35": { machine: "q35", scsi0: "store:a.raw", scsi15: "store:b.raw" },
  "virtio-scsi": {
    scsihw: "virtio-scsi-pci",
    scsi0: "store:a.raw,wwn=0x5000c50015ea71ad,vendor=ACME,product=Disk,werror=enospc,rerror=stop",
    scsi30: "store:iso/cd.iso,media=cdrom",
  },
  "virtio-scsi-single with a thread each": {
    scsihw: "virtio-scsi-single",
    scsi0: "store:a.raw,iothread=1,queues=2",
    scsi1: "store:c.qcow2,iothread=1,cache=unsafe",
  },
  "virtio-scsi-single on q35": {
    machine: "q35",
    scsihw: "virtio-scsi-single",
    scsi1: "store:a.raw,iothread=1",
  },
  megasas: { scsihw: "megasas", scsi0: "store:a.raw" },
  pvscsi: { scsihw: "pvscsi", scsi0: "store:a.raw" },
  lsi53c810: { scsihw: "lsi53c810", scsi0: "store:a.raw" },
  "network cards of every kind": {
    net0: `virtio=${NIC},queues=2`,
    net1: `e1000=${NIC}`,
    net2: `rtl8139=${NIC}`,
    net3: `vmxnet3=${NIC}`,
    net4: `e1000e=${NIC}`,
    net5: `ne2k_pci=${NIC}`,
    net6: `pcnet=${NIC}`,
    net7: `i82551=${NIC}`,
    net31: `virtio=${NIC}`,
    boot: "order=net0;net7",
  },
  "serial ports, agent, RNG, watchdog, sound": {
    serial0: "socket",
    serial3: "socket",
    agent: "1",
    rng0: "source=/dev/urandom",
    watchdog: "model=i6300esb,action=reset",
    audio0: "device=ich9-intel-hda",
  },
  "the agent on ISA, ib700 and AC97": { agent: "1,type=isa", watchdog: "ib700", audio0: "device=AC97" },
  "no screen at all": { vga: "none" },
  "the screen on a serial port": { vga: "serial0", serial0: "socket" },
  "standard VGA with memory": { vga: "std,memory=32" },
  cirrus: { vga: "cirrus" },
  "VMware VGA": { vga: "vmware" },
  "VirtIO VGA": { vga: "virtio" },
  "QXL without SPICE": { vga: "qxl" },
  "a VNC clipboard": { vga: "std,clipboard=vnc" },
  "NUMA nodes": { numa: "1", sockets: "2", cores: "2", memory: "128" },
  "chosen NUMA nodes": {
    numa: "1",
    cores: "2",
    memory: "128",
    numa0: "cpus=0,memory=64,hostnodes=0,policy=preferred",
    numa1: "cpus=1,memory=64",
  },
  "pluggable memory and CPUs": {
    numa: "1",
    hotplug: "memory,cpu,disk,network",
    memory: "1536",
    sockets: "2",
    cores: "2",
    vcpus: "2",
  },
  "no balloon, no tablet, no ACPI": { balloon: "0", tablet: "0", acpi: "0", localtime: "1" },
  "Linux on q35": { machine: "q35", ostype: "l26", net0: `virtio=${NIC}`, scsi0: "store:a.raw" },
  "Windows 11": { ostype: "win11", machine: "pc-q35-7.2", cpu: "host", net0: `virtio=${NIC}` },
  "an old machine type": { machine: "pc-i440fx-5.1", ostype: "win10", ide0: "store:a.raw" },
  "an old q35 machine type": { machine: "pc-q35-4.1", scsi0: "store:a.raw", vga: "qxl" },
  "a q35 machine type with the root ports of its time": { machine: "pc-q35-3.1", scsi0: "store:a.raw" },
  "CPU type host": { cpu: "host" },
  "CPU type x86-64-v2-AES": { cpu: "x86-64-v2-AES" },
  "CPU type x86-64-v3": { cpu: "x86-64-v3" },
  "memory that is never merged": { "allow-ksm": "0" },
  "an ISA network card": { net0: `ne2k_isa=${NIC}` },
  "an offload that is asked for": { net0: `virtio=${NIC},host-tunnel=1` },
  "SMBIOS texts that are not encoded": { smbios1: `uuid=${UUID},serial=abc,family=x` },
  "CPU type Skylake-Server with flags": { cpu: "Skylake-Server,flags=+aes;-pcid,hidden=1" },
  "CPU type EPYC": { cpu: "EPYC" },
  "an Intel IOMMU": { machine: "q35,viommu=intel" },
  "a VirtIO IOMMU": { machine: "q35,viommu=virtio" },
  "shared memory": { ivshmem: "size=1" },
  "SMBIOS fields": { smbios1: `uuid=${UUID},manufacturer=QWNtZSwgSW5jLg==,base64=1` },
  "an odd name": { name: "a,b=c" },
};

describe.skipIf(!present)("the installed QEMU accepts", () => {
  test.each(Object.entries(small))("%s", async (_, config) => {
    await accepts({ ...BASE, ...config });
  });

  test.skipIf(!existsSync(FIRMWARE))("OVMF with and without a disk for its variables", async () => {
    await accepts({ ...BASE, bios: "ovmf" });
    await accepts({
      ...BASE,
      bios: "ovmf",
      machine: "q35",
      efidisk0: "store:efi.raw,efitype=4m,pre-enrolled-keys=1",
    });
  });

  test.skipIf(!existsSync(SWTPM))("a TPM", async () => {
    const { input } = prepare({ ...BASE, tpmstate0: "store:tpm.raw,version=v2.0" });
    const state = join(folder, "tpm-state");
    mkdirSync(state, { recursive: true });
    children.push(
      startChild(
        SWTPM,
        ["socket", "--tpm2", "--tpmstate", `dir=${state}`].concat(
          "--ctrl",
          `type=unixio,path=${input.paths.swtpm}`,
        ),
      ),
    );
    await vi.waitFor(() => expect(existsSync(input.paths.swtpm)).toBe(true), { timeout: 150_000 });
    await quit(await start(input));
  });

  test("a microvm when it is asked for", async () => {
    const config = { ...BASE, virtio0: "store:a.raw", net0: `virtio=${NIC}`, serial0: "socket" };
    const { input } = prepare(config, { microvm: true });
    const qmp = await start(input);
    expect(await qmp.execute("query-status")).toMatchObject({ status: "prelaunch" });
    await quit(qmp);
  });

  test("a guest that waits for a migration", async () => {
    const { input } = prepare({ ...BASE, scsi0: "store:a.raw" }, { incoming: true });
    const qmp = await start(input);
    expect(await qmp.execute("query-status")).toMatchObject({ status: "inmigrate" });
    await quit(qmp);
  });
});

describe.skipIf(!present)("the firmware boots from", () => {
  // The boot sector writes one character to the serial port.
  test.each([
    ["ide0", {}],
    ["sata0", {}],
    ["sata1", { machine: "q35" }],
    ["virtio0", {}],
    ["virtio9", { machine: "q35" }],
    ["scsi0", {}],
    ["scsi1", { scsihw: "virtio-scsi-pci" }],
    ["scsi2", { scsihw: "virtio-scsi-single", machine: "q35" }],
    ["scsi0", { scsihw: "megasas" }],
    ["scsi4", { scsihw: "pvscsi" }],
  ] as [string, VmValues][])("%s with %o", async (key, config) => {
    writeFileSync(join(folder, "boot.raw"), bootSector("serial"));
    const disk = `store:boot.raw${/^scsi2|^virtio/.test(key) ? ",iothread=1" : ""}`;
    const { input } = prepare({
      ...BASE,
      ...config,
      [key]: disk,
      boot: `order=${key}`,
      serial0: "socket",
      vga: "serial0",
    });
    const qmp = await start(input);
    const alive = printed(input.paths.serial(0), "!");
    await qmp.execute("cont");
    expect(await alive).toContain("!");
    await quit(qmp);
  });
});

test.skipIf(!present)("what a guest writes to a disk with snapshot=1 goes with it", async () => {
  const { input } = prepare({ ...BASE, virtio0: "store:a.raw" });
  const before = readFileSync(join(folder, "a.raw"));
  const overlay = join(folder, "virtio0.overlay");
  writeFileSync(overlay, emptyQcow2(statSync(join(folder, "a.raw")).size));
  const { stdout } = await exec("/usr/bin/qemu-img", ["check", "-f", "qcow2", overlay]);
  expect(stdout).toContain("No errors were found");
  const volumes: CommandInput["volumes"] = (file, drive) => ({
    ...input.volumes(file, drive),
    overlay: { driver: "file", filename: overlay },
  });
  const qmp = await start({
    ...input,
    volumes,
    config: { ...input.config, virtio0: "store:a.raw,snapshot=1" },
  });
  await qmp.execute("human-monitor-command", {
    "command-line": `qemu-io -d /machine/peripheral/virtio0/virtio-backend "write -P 7 4096 4096"`,
  });
  await quit(qmp);
  expect(readFileSync(overlay).includes(Buffer.alloc(4096, 7))).toBe(true);
  expect(readFileSync(join(folder, "a.raw")).equals(before)).toBe(true);
});

describe.skipIf(!present)("a running guest takes", () => {
  test("disks, network cards, CPUs and memory while it runs, and gives them back", async () => {
    const config: VmValues = {
      ...BASE,
      numa: "1",
      hotplug: "memory,cpu,disk,network",
      memory: "1024",
      cores: "4",
      vcpus: "1",
      scsihw: "virtio-scsi-single",
    };
    const { input } = prepare(config);
    const qmp = await start(input);
    const withNew = { ...config, scsi2: "store:a.raw,iothread=1", virtio3: "store:c.qcow2,mbps=5" };
    const running: CommandInput = { ...input, config: withNew };
    const none = { controllers: new Set<string>() };
    const plans = [
      plugDrive(running, "scsi2", requireDrive("scsi2", withNew.scsi2), none),
      plugDrive(running, "virtio3", requireDrive("virtio3", withNew.virtio3), none),
      plugCpu(running, 2),
      ...memoryModules(withNew, 1536).map(plugMemory),
    ];
    for (const plan of plans) await all(qmp, plan.steps);
    const nodes = (await qmp.execute("query-named-block-nodes")) as { "node-name": string }[];
    expect(nodes.map((node) => node["node-name"])).toEqual(
      expect.arrayContaining(["drive-scsi2", "drive-virtio3"]),
    );
    await qmp.execute("netdev_add", { type: "user", id: "net2" });
    const net = readVmProperty("net", `virtio=${NIC}`, "net2");
    await all(qmp, plugNic(running, "net2", net).steps);
    expect(await qmp.execute("query-memory-devices")).toHaveLength(1);
    await quit(qmp);
  });
});

/** What the guest has printed, up to the mark. */
function printed(path: string, mark: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(path);
    socket.on("error", reject);
    let text = "";
    socket.on("data", (chunk) => {
      text += chunk.toString("latin1");
      if (!text.includes(mark)) return;
      socket.destroy();
      resolve(text);
    });
  });
}

async function accepts(config: VmValues): Promise<void> {
  const { input, command } = prepare(config);
  const qmp = await start(input);
  expect(await qmp.execute("query-status")).toMatchObject({ status: "prelaunch" });
  expect(await qmp.execute("query-uuid")).toEqual({ UUID });
  const machines = (await qmp.execute("query-machines")) as { name: string }[];
  expect(machines.map(({ name }) => name)).toContain(command.machine);
  await quit(qmp);
}

/** Files for every volume the configuration may name, and the command. */
function prepare(
  config: VmValues,
  options: CommandInput["options"] = {},
): { readonly input: CommandInput; readonly command: QemuCommand } {
  for (const name of ["a.raw", "b.raw", "tpm.raw", "cd.iso"]) image(name, 1024 * 1024);
  const vars = join(FIRMWARE, "OVMF_VARS.fd");
  if (existsSync(vars)) {
    copyFileSync(vars, join(folder, "efivars.fd"));
    copyFileSync(join(FIRMWARE, "OVMF_VARS_4M.ms.fd"), join(folder, "efi.raw"));
  }
  const input: CommandInput = {
    vmid: 100,
    config,
    host,
    paths: samplePaths(folder, QEMU),
    sha256Hex: (text) => createHash("sha256").update(text).digest("hex"),
    options: { paused: true, ...options },
    volumes: (file) => {
      const name = file.replace(/^.*[:/]/, "");
      return {
        node: { driver: "file", filename: join(folder, name) },
        format: name.endsWith(".qcow2") ? "qcow2" : "raw",
        contentType: name.endsWith(".iso") ? "iso" : "images",
        storage: { id: "store", type: "dir", content: ["images", "iso"] },
      };
    },
  };
  return { input, command: qemuCommand(input) };
}

function image(name: string, bytes: number): void {
  const path = join(folder, name);
  if (existsSync(path)) return;
  writeFileSync(path, "");
  truncateSync(path, bytes);
}

async function start(input: CommandInput): Promise<QmpConnection> {
  if (!existsSync(join(folder, "c.qcow2")))
    await exec("/usr/bin/qemu-img", ["create", "-q", "-f", "qcow2", join(folder, "c.qcow2"), "1M"]);
  for (const socket of [input.paths.qmp, input.paths.vnc, input.paths.serial(0)])
    rmSync(socket, { force: true });
  const [program = QEMU, ...args] = qemuCommand(input).argv;
  const child = startChild(program, args);
  children.push(child);
  let ended = false;
  void child.exited.then(() => (ended = true));
  // The socket is there a moment before anybody listens on it.
  const answer = await vi.waitFor(
    async () => {
      if (ended) return new Error(`QEMU refused: ${child.output()}`);
      return await QmpConnection.open({ path: input.paths.qmp, label: "VM 100" });
    },
    { timeout: 150_000, interval: 20 },
  );
  if (answer instanceof Error) throw answer;
  return answer;
}

async function all(qmp: QmpConnection, steps: readonly QmpCommand[]): Promise<void> {
  for (const step of steps) await qmp.execute(step.execute, step.arguments);
}

async function quit(qmp: QmpConnection): Promise<void> {
  await qmp.execute("quit");
  qmp.close();
  for (const child of children) await child.stop();
}
