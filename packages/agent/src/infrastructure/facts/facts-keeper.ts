// Everything a node knows about itself. What files tell is there at once; what has to be tried (running guests,
// calling tools) comes in the background and is remembered for this boot, so that a restart is quick.
import { bridgeFacts, listInterfaces } from "../net/interfaces.ts";
import { mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { arch, hostname, release, type as sysname, version } from "node:os";
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import type { BridgeFacts, Capability, NodeFacts } from "@gpve/domain/node/runtime.ts";
import { KATA_CAPABILITY } from "@gpve/domain/vcluster/vnode/kata.ts";
import type { RequestLogger } from "@gpve/domain/request/context.ts";
import { readJsonFile, writeFileWhole } from "@gpve/kit/atomic-file.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import { capabilityProbes, tryCapability, unavailable, type CapabilityProbe } from "./capability-table.ts";
import { probeAccelerator, type ProbeResult } from "./guest-probe.ts";
import { readCpuFlags } from "./cpu-flags.ts";
import type { HostFiles } from "./host-files.ts";
import { readNumaCells } from "./numa-cells.ts";
import {
  isDiskName,
  isGpu,
  parseCgroupVersion,
  parseNvidiaSmi,
  parseOsRelease,
  parseQemuMachines,
  parseQemuVersion,
  parseSecureBoot,
} from "./host-identity.ts";
import { parseCpuInfo } from "./proc-cpuinfo.ts";
import { parseMeminfo } from "./proc-usage.ts";

export interface FactsDeps {
  readonly files: HostFiles;
  readonly exec: Exec;
  readonly log: RequestLogger;
  /** DIR/agent: temporary files. */
  readonly folder: string;
  /** What running guests showed, kept for this boot. */
  readonly triedFile: string;
  readonly qemuBinary?: string;
  readonly probes?: readonly CapabilityProbe[];
  /** How far guests can be held here. */
  readonly confinement: () => Promise<Capability>;
  /** Whether pods can be machines here. */
  readonly kata: () => Promise<Capability>;
  /** What is described for containers here; absent: nothing is. */
  readonly devices?: () => Promise<NodeFacts["devices"]>;
}

/** What running guests showed, and for which boot and QEMU it holds. Seconds where it fails, so it is kept. */
interface Tried {
  readonly key: string;
  readonly kvm: ProbeResult;
  readonly tcg: ProbeResult;
}

type Qemu = NodeFacts["qemu"];
/** What is quick to try and may change at any time: packages are installed, bridges made. */
interface Looked {
  readonly qemu: Qemu;
  readonly capabilities: readonly Capability[];
  readonly userHz: number;
  readonly networks: readonly BridgeFacts[];
  readonly gpus: NodeFacts["gpus"];
  readonly devices?: NodeFacts["devices"] | undefined;
}

type Static = Omit<
  NodeFacts,
  "qemu" | "accelerator" | "capabilities" | "bridges" | "networks" | "gpus" | "devices"
>;

const CACHE_VERSION = 2;
const PENDING = "is being tried";

export class FactsKeeper {
  readonly #deps: FactsDeps;
  readonly #qemuBinary: string;
  #static: Static | undefined;
  #tried: Tried | undefined;
  #trying: Promise<void> | undefined;
  #looked: Looked = { qemu: undefined, capabilities: [], userHz: 100, networks: [], gpus: [] };
  #pending = true;
  #current: NodeFacts | undefined;
  #generation = 0;

  constructor(deps: FactsDeps) {
    this.#deps = deps;
    this.#qemuBinary = deps.qemuBinary ?? "/usr/bin/qemu-system-x86_64";
  }

  /** Reads the files and the cache: milliseconds. After it `facts()` may be called. */
  async load(): Promise<void> {
    this.#static = await readStatic(this.#deps.files);
    this.#looked = { ...this.#looked, devices: await this.#deps.devices?.() };
    const cached = this.#readCache();
    if (cached?.key === (await this.#key())) this.#tried = cached;
    this.#compose();
  }

  facts(): { readonly facts: NodeFacts; readonly generation: number } {
    if (this.#current === undefined) throw new Error("facts are asked for before load()");
    return { facts: this.#current, generation: this.#generation };
  }

  /** Looks at tools and devices, and runs guests where that was not done for this boot. Call it now and then. */
  async refresh(signal?: AbortSignal): Promise<void> {
    this.#looked = await this.#look(signal);
    this.#pending = false;
    this.#compose();
    await this.guestsTried();
  }

  /** Runs guests where that was not done for this boot; everybody who waits waits for the same ones. */
  guestsTried(): Promise<void> {
    this.#trying ??= this.#tryOnce().finally(() => {
      this.#trying = undefined;
    });
    return this.#trying;
  }

  /** Only what changes often and is cheap to see. */
  async refreshBridges(): Promise<void> {
    const [networks, devices] = [await this.#bridges(), await this.#deps.devices?.()];
    this.#looked = { ...this.#looked, networks, devices };
    this.#compose();
  }

  #compose(): void {
    if (this.#static === undefined) return;
    const { qemu, userHz, networks, gpus, devices } = this.#looked;
    const next: NodeFacts = {
      ...this.#static,
      cpu: { ...this.#static.cpu, userHz },
      bridges: networks.map(({ name }) => name),
      networks,
      gpus,
      ...given({ qemu, devices }),
      accelerator: acceleratorOf(this.#tried),
      capabilities: capabilitiesOf(this.#tried, this.#looked, this.#pending),
    };
    if (JSON.stringify(next) === JSON.stringify(this.#current)) return;
    this.#current = next;
    this.#generation++;
  }

  async #key(): Promise<string> {
    const { files } = this.#deps;
    const mtime = await files.mtime(this.#qemuBinary);
    return [
      CACHE_VERSION,
      this.#static?.bootId ?? "",
      this.#qemuBinary,
      mtime ?? "absent",
      // A kernel module that is loaded later brings it.
      (await files.mtime("/dev/kvm")) === undefined ? "no-kvm" : "kvm",
      process.getuid?.() ?? 0,
    ].join(" ");
  }

  async #look(signal: AbortSignal | undefined): Promise<Looked> {
    const { exec, probes = capabilityProbes, confinement, kata } = this.#deps;
    const hz = await exec("getconf", ["CLK_TCK"]).catch(() => undefined);
    return {
      qemu: await this.#qemu(),
      capabilities: await Promise.all([
        confinement(),
        ...probes.map((probe) => tryCapability(probe, exec, signal)),
        kata(),
      ]),
      userHz: Number(hz?.stdout.trim()) || 100,
      networks: await this.#bridges(),
      gpus: await this.#gpus(),
      devices: await this.#deps.devices?.(),
    };
  }

  async #tryOnce(): Promise<void> {
    const key = await this.#key();
    if (this.#tried?.key === key) return;
    this.#tried = await this.#tryGuests(key);
    // A machine where no guest runs at all is being mended, or so busy that it says nothing about the next time.
    if (this.#tried.tcg.works) this.#writeCache(this.#tried);
    this.#compose();
  }

  async #tryGuests(key: string): Promise<Tried> {
    const { exec, folder, files } = this.#deps;
    if ((await files.mtime(this.#qemuBinary)) === undefined) {
      const none: ProbeResult = { works: false, detail: `${this.#qemuBinary} is not installed` };
      return { key, kvm: none, tcg: none };
    }
    const run = { exec, qemu: this.#qemuBinary, folder };
    const [tcg, kvm] = await Promise.all([probeAccelerator("tcg", run), this.#kvm(run)]);
    return { key, tcg, kvm };
  }

  async #kvm(run: { exec: Exec; qemu: string; folder: string }): Promise<ProbeResult> {
    if ((await this.#deps.files.mtime("/dev/kvm")) === undefined) {
      return { works: false, detail: "/dev/kvm is not there" };
    }
    return probeAccelerator("kvm", run);
  }

  async #qemu(): Promise<Qemu> {
    const { exec } = this.#deps;
    try {
      const version = parseQemuVersion((await exec(this.#qemuBinary, ["--version"])).stdout);
      const machines = parseQemuMachines((await exec(this.#qemuBinary, ["-machine", "help"])).stdout);
      if (version === undefined) return undefined;
      const cpuFlags = await readCpuFlags(exec, this.#qemuBinary);
      return {
        version,
        binary: this.#qemuBinary,
        machines,
        ...given({ cpuFlags }),
      };
    } catch (err) {
      this.#deps.log.warn({ err: messageOf(err) }, "QEMU cannot be used");
      return undefined;
    }
  }

  async #bridges(): Promise<readonly BridgeFacts[]> {
    return bridgeFacts(await listInterfaces(this.#deps.exec).catch(() => []));
  }

  async #gpus(): Promise<NodeFacts["gpus"]> {
    const query = ["--query-gpu=uuid,name,memory.total,driver_version", "--format=csv,noheader,nounits"];
    const smi = await this.#deps.exec("nvidia-smi", query).catch(() => undefined);
    const known = smi === undefined ? [] : parseNvidiaSmi(smi.stdout);
    return known.length > 0 ? known : readPciGpus(this.#deps.files);
  }

  #readCache(): Tried | undefined {
    try {
      return readJsonFile(this.#deps.triedFile) as Tried | undefined;
    } catch (err) {
      this.#deps.log.warn(
        { err: messageOf(err) },
        "cache of host probes is unreadable and will be made again",
      );
      return undefined;
    }
  }

  #writeCache(tried: Tried): void {
    const { triedFile, log } = this.#deps;
    try {
      mkdirSync(dirname(triedFile), { recursive: true });
      writeFileWhole(triedFile, JSON.stringify(tried));
    } catch (err) {
      log.warn({ err: messageOf(err) }, "what running guests showed is not kept and will be tried again");
    }
  }
}

function acceleratorOf(tried: Tried | undefined): NodeFacts["accelerator"] {
  if (tried?.kvm.works === true) return "kvm";
  return tried?.tcg.works === true ? "tcg" : "none";
}

function capabilitiesOf(tried: Tried | undefined, looked: Looked, pending: boolean): readonly Capability[] {
  if (pending && tried === undefined) return [unavailable("kvm", PENDING, "wait a moment")];
  const qemuFix = "apt-get install -y qemu-system-x86 qemu-utils ovmf";
  const noDevice = /\/dev\/kvm is not there/.test(tried?.kvm.detail ?? "");
  const kvmFix = noDevice
    ? "turn on virtualisation in the firmware (or nested virtualisation on the host) and load kvm_intel or kvm_amd"
    : "guests run under TCG, slower; use a host whose /dev/kvm runs unmodified guests at full speed";
  const asCapability = (name: string, result: ProbeResult | undefined, fix: string): Capability => {
    if (result === undefined) return unavailable(name, PENDING, "wait a moment");
    return result.works
      ? { name, available: true, detail: result.detail }
      : unavailable(name, result.detail, fix);
  };
  const qemu = looked.qemu;
  const first: Capability[] = [
    asCapability("kvm", tried?.kvm, qemu === undefined ? qemuFix : kvmFix),
    asCapability("tcg", tried?.tcg, qemuFix),
  ];
  if (pending) return first;
  return [
    qemu === undefined
      ? unavailable("qemu", "qemu-system-x86_64 is not installed or does not run", qemuFix)
      : { name: "qemu", available: true, detail: `QEMU ${qemu.version}` },
    ...first,
    ...looked.capabilities.flatMap((each) => withKvm(each, tried?.kvm, kvmFix)),
  ];
}

/** Kata asks whether there is a /dev/kvm; whether guests run under it is known here, and nothing is said before. */
function withKvm(capability: Capability, kvm: ProbeResult | undefined, fix: string): readonly Capability[] {
  if (capability.name !== KATA_CAPABILITY || !capability.available) return [capability];
  if (kvm === undefined) return [];
  return kvm.works
    ? [capability]
    : [unavailable(KATA_CAPABILITY, `Kata is there, KVM does not work: ${kvm.detail}`, fix)];
}

async function readStatic(files: HostFiles): Promise<Static> {
  const read = async (path: string): Promise<string> => (await files.read(path)) ?? "";
  const efi = (await files.list("/sys/firmware/efi")).length > 0;
  const secureBoot = await files.readBytes(
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c",
  );
  return {
    hostname: hostname(),
    kernel: {
      sysname: sysname(),
      release: release(),
      version: version(),
      machine: arch() === "x64" ? "x86_64" : arch() === "arm64" ? "aarch64" : arch(),
    },
    osImage: parseOsRelease(await read("/etc/os-release")),
    bootMode: efi ? "efi" : "legacy-bios",
    secureBoot: parseSecureBoot(secureBoot),
    bootId: (await read("/proc/sys/kernel/random/boot_id")).trim(),
    cpu: { ...parseCpuInfo(await read("/proc/cpuinfo")), userHz: 100 },
    memoryBytes: parseMeminfo(await read("/proc/meminfo")).memory.total,
    numa: await readNumaCells(files),
    disks: await readDisks(files),
    cgroupVersion: parseCgroupVersion(await read("/proc/mounts")),
  };
}

async function readDisks(files: HostFiles): Promise<NodeFacts["disks"]> {
  const names = (await files.list("/sys/block")).filter(isDiskName);
  return Promise.all(
    names.map(async (name) => {
      const read = async (file: string): Promise<string> =>
        ((await files.read(`/sys/block/${name}/${file}`)) ?? "").trim();
      return {
        name,
        // The kernel counts 512-byte sectors here whatever the disk's own sector size is.
        sizeBytes: (Number(await read("size")) || 0) * 512,
        model: await read("device/model"),
        rotational: (await read("queue/rotational")) === "1",
      };
    }),
  );
}

async function readPciGpus(files: HostFiles): Promise<NodeFacts["gpus"]> {
  const found: NodeFacts["gpus"][number][] = [];
  for (const slot of await files.list("/sys/bus/pci/devices")) {
    const read = async (file: string): Promise<string> =>
      ((await files.read(`/sys/bus/pci/devices/${slot}/${file}`)) ?? "").trim();
    const vendor = await read("vendor");
    if (!isGpu(await read("class"), vendor)) continue;
    const driver = /^DRIVER=(.*)$/m.exec(await read("uevent"))?.[1] ?? "none";
    found.push({ uuid: slot, model: `${vendor}:${await read("device")}`, memoryBytes: 0, driver });
  }
  return found;
}
