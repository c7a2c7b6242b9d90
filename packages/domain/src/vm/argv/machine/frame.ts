// What surrounds the guest's hardware: name, monitors, sandbox. This is where our hosts differ most from PVE's.
import { monitorArguments } from "./monitors.ts";
import { decodeBase64Text } from "../text/base64-text.ts";
import type { Build } from "../build.ts";
import { escapeComma } from "../text/option-text.ts";
import type { Smbios1 } from "../../config/property-types.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import { QEMU_SANDBOX } from "./sandbox.ts";

const SMBIOS_FIELDS = ["family", "manufacturer", "product", "serial", "sku", "uuid", "version"] as const;

export function addFrame(build: Build): void {
  if (build.stock) addStockFrame(build);
  else addPveFrame(build);
  addSmbios(build);
}

export function guestUuid(build: Build): string | undefined {
  return readSmbios(build)?.uuid ?? build.options.uuid;
}

/** The accelerator as an option of its own: PVE has it among the machine's flags. */
export function addAccelerator(build: Build): void {
  if (!build.stock) {
    if (!build.kvm) build.machineFlags.push("accel=tcg");
    return;
  }
  const buffer = build.options.tcgBufferMiB;
  const tcg = buffer === undefined ? "tcg" : `tcg,tb-size=${buffer}`;
  build.cmd.push("-accel", build.kvm ? "kvm" : tcg);
}

function addStockFrame(build: Build): void {
  const { cmd, input, options } = build;
  const { paths } = input;
  const name = escapeComma(build.values["name"] ?? `vm${build.vmid}`);
  cmd.push(paths.binary, "-name", `guest=${name},debug-threads=on`);
  const uuid = guestUuid(build);
  if (uuid !== undefined) cmd.push("-uuid", uuid);
  cmd.push("-no-user-config", "-sandbox", QEMU_SANDBOX);
  if (options.exitOnShutdown !== true) cmd.push("-no-shutdown");
  cmd.push(...monitorArguments(paths));
}

function addPveFrame(build: Build): void {
  const { cmd, vmid } = build;
  const { paths } = build.input;
  const affinity = build.values["affinity"];
  if (affinity !== undefined) cmd.push("/usr/bin/taskset", "--cpu-list", "--all-tasks", affinity);
  cmd.push(build.native ? "/usr/bin/kvm" : `/usr/bin/qemu-system-${build.arch}`);
  // QEMU names its threads by itself since 11.0.
  const threads = build.qemuHas("named-threads") ? "" : ",debug-threads=on";
  cmd.push("-id", String(vmid), "-name", `${build.values["name"] ?? `vm${vmid}`}${threads}`, "-no-shutdown");
  cmd.push(
    "-chardev",
    `socket,id=qmp,path=${paths.qmp},server=on,wait=off`,
    "-mon",
    "chardev=qmp,mode=control",
  );
  if (build.since(2, 12)) addEventMonitor(build);
  cmd.push("-pidfile", `/var/run/qemu-server/${vmid}.pid`, "-daemonize");
}

function addEventMonitor({ cmd, host, input }: Build): void {
  const reconnect = host.features.has("reconnect-ms") ? "reconnect-ms=5000" : "reconnect=5";
  cmd.push("-chardev", `socket,id=qmp-event,path=${input.paths.qmpEvents},${reconnect}`);
  cmd.push("-mon", "chardev=qmp-event,mode=control");
}

function addSmbios(build: Build): void {
  const smbios = readSmbios(build);
  if (smbios === undefined) return;
  const parts = ["type=1"];
  for (const field of SMBIOS_FIELDS) {
    const value = smbios[field];
    if (value === undefined) continue;
    const plain = smbios.base64 === true && field !== "uuid" ? decodeBase64Text(value) : value;
    if (plain !== "" && plain !== "0") parts.push(`${field}=${escapeComma(plain)}`);
  }
  build.cmd.push("-smbios", parts.join(","));
}

function readSmbios(build: Build): Smbios1 | undefined {
  const text = build.values["smbios1"];
  return text === undefined ? undefined : readVmProperty("smbios1", text, "smbios1");
}
