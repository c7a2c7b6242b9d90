// PCI devices of the host passed to the guest, by address or by a mapping of the cluster.
import { refused } from "../../../request/failures.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { HostPci } from "../../config/property-types.ts";
import type { Build } from "../build.ts";
import type { HostFacts } from "../host-facts.ts";
import { device, type DeviceOptions, type OptionValue } from "../text/option-text.ts";
import { addressProperties, pcieAddress, type PciAddress } from "./pci-address.ts";

export interface HostPciResult {
  readonly hideKvm: boolean;
  readonly gpuPassthrough: boolean;
  readonly legacyIgd: boolean;
  /** hostpciN -> the host's addresses. */
  readonly chosen: Readonly<Record<string, readonly string[]>>;
}

interface Candidate {
  readonly key: string;
  readonly index: number;
  readonly options: HostPci;
  /** Alternatives, each a list of functions of one device. */
  readonly alternatives: readonly (readonly string[])[];
  readonly liveMigration: boolean;
}

const MAX_HOSTPCI = 16;
/** Ports that q35 always has; more are added when a device needs one. */
const FIXED_ROOT_PORTS = 4;
const ID_OVERRIDES = ["vendor-id", "device-id", "sub-vendor-id", "sub-device-id"] as const;

export function addHostPci(build: Build): HostPciResult {
  const candidates = readCandidates(build);
  const chosen = choose(candidates, build.host);
  let gpu = false;
  for (const candidate of candidates) {
    if (candidate.options["x-vga"] === true) gpu = true;
    addOne(build, candidate, chosen[candidate.key] ?? []);
  }
  return {
    hideKvm: gpu,
    gpuPassthrough: gpu,
    legacyIgd: candidates.some(({ options }) => options["legacy-igd"] === true),
    chosen,
  };
}

function addOne(build: Build, candidate: Candidate, functions: readonly string[]): void {
  const { key, index, options } = candidate;
  if (options.pcie === true && build.windows !== 7 && index >= FIXED_ROOT_PORTS)
    build.addDevice(extraRootPort(index));
  const address = placeOf(build, key, options);
  const mediated = options.mdev !== undefined;
  const multifunction = functions.length > 1 && !mediated;
  for (const [number, host] of functions.entries()) {
    const suffix = multifunction ? `.${number}` : "";
    const source: readonly [string, string] = mediated
      ? ["sysfsdev", `/sys/bus/mdev/devices/${mdevUuid(build.vmid, index)}`]
      : ["host", host];
    build.addDevice(
      device(
        "vfio-pci",
        source,
        ["enable-migration", candidate.liveMigration ? true : undefined],
        ["id", `${key}${suffix}`],
        ...addressProperties(
          address === undefined ? undefined : { bus: address.bus, addr: `${address.addr}${suffix}` },
        ),
        ...(number === 0 ? firstFunction(build, candidate, multifunction) : []),
      ),
    );
    if (mediated) break;
  }
}

function firstFunction(
  build: Build,
  { key, options }: Candidate,
  multifunction: boolean,
): (readonly [string, OptionValue | undefined])[] {
  const seabios = build.values["bios"] !== "ovmf";
  return [
    ["rombar", options.rombar === false ? 0 : undefined],
    ["x-vga", options["x-vga"] === true && seabios ? true : undefined],
    ["multifunction", multifunction ? true : undefined],
    ["romfile", options.romfile === undefined ? undefined : `/usr/share/kvm/${options.romfile}`],
    ["bootindex", build.bootIndexes.get(key)],
    ...ID_OVERRIDES.map((name): [string, string | undefined] => [`x-pci-${name}`, options[name]]),
  ];
}

function placeOf(build: Build, key: string, options: HostPci): PciAddress | undefined {
  if (options.pcie === true) return pcieAddress(build.windows === 7 ? `${key}bus0` : key);
  return build.pci.place(options["legacy-igd"] === true ? "legacy-igd" : key);
}

/** The port's slot: 10.0 for the fifth port, eight functions to a slot. */
function extraRootPort(index: number): DeviceOptions {
  const place = index - FIXED_ROOT_PORTS;
  return device(
    "pcie-root-port",
    ["id", `ich9-pcie-port-${index + 1}`],
    ["addr", `${10 + Math.floor(place / 8)}.${place % 8}`],
    ["x-speed", "16"],
    ["x-width", "32"],
    ["multifunction", true],
    ["bus", "pcie.0"],
    ["port", index + 1],
    ["chassis", index + 1],
  );
}

/** Name of the mediated device made for a slot of a VM. */
export function mdevUuid(vmid: number, index: number): string {
  return `${String(index).padStart(8, "0")}-0000-0000-0000-${String(vmid).padStart(12, "0")}`;
}

function readCandidates(build: Build): Candidate[] {
  const found: Candidate[] = [];
  for (let index = 0; index < MAX_HOSTPCI; index++) {
    const key = `hostpci${index}`;
    const text = build.values[key];
    if (text === undefined) continue;
    const candidate = resolve(key, index, readVmProperty("hostpci", text, key), build.host);
    if (candidate.options.pcie === true && !build.q35) throw refused("q35 machine model is not enabled");
    if (candidate.options["legacy-igd"] === true) {
      if (found.some(({ options }) => options["legacy-igd"] === true))
        throw refused("only one device can be assigned in legacy-igd mode");
      checkLegacyIgd(candidate, build);
    }
    found.push(candidate);
  }
  return found;
}

function resolve(key: string, index: number, options: HostPci, host: HostFacts): Candidate {
  if (options.host !== undefined && options.mapping !== undefined)
    throw refused("Cannot set both 'host' and 'mapping'.");
  if (options.host === undefined && options.mapping === undefined)
    throw refused("Either 'host' or 'mapping' must be set.");
  const mapping = options.mapping === undefined ? undefined : findMapping(host, options.mapping);
  const alternatives = (mapping?.paths ?? [options.host ?? ""]).map((path) => {
    const functions = path.split(";").flatMap((id) => devicesAt(id, host));
    if (functions.length > 1 && options.mdev !== undefined)
      throw refused("cannot use mediated device with multifunction device");
    return functions;
  });
  return { key, index, options, alternatives, liveMigration: mapping?.liveMigrationCapable === true };
}

function findMapping(host: HostFacts, name: string) {
  const mapping = Object.hasOwn(host.pciMappings, name) ? host.pciMappings[name] : undefined;
  if (mapping === undefined || mapping.paths.length === 0)
    throw refused(`PCI device mapping not found for '${name}'`);
  return mapping;
}

/** `01:00` means every function of the device. */
function devicesAt(id: string, host: HostFacts): readonly string[] {
  const full = /^[0-9a-f]{4,}:[0-9a-f]{2}:/i.test(id) ? id : `0000:${id}`;
  const found = host.pciDevices.filter((each) => each === full || each.startsWith(`${full}.`)).toSorted();
  if (found.length === 0) throw refused(`no PCI device found for '${id}'`);
  return found;
}

function checkLegacyIgd({ options, alternatives }: Candidate, build: Build): void {
  if (build.values["vga"] !== "none") throw refused("legacy IGD assignment requires VGA mode to be 'none'");
  if (options.rombar === false) throw refused("legacy IGD assignment requires rombar to be enabled");
  if (options["x-vga"] === true) throw refused("legacy IGD assignment is not compatible with x-vga");
  if (options.mdev !== undefined) throw refused("legacy IGD assignment is not compatible with mdev");
  if (build.q35) throw refused("legacy IGD assignment is not compatible with q35");
  if (alternatives.some((functions) => functions.length > 1))
    throw refused("legacy IGD assignment is not compatible with multifunction devices");
  if (alternatives.length > 1)
    throw refused("legacy IGD assignment is not compatible with alternate devices");
  if (!(alternatives[0]?.[0] ?? "").endsWith("02.0"))
    throw refused("legacy IGD assignment only works for devices on host bus 00:02.0");
}

/** One free alternative per slot; a mediated device is made later, on whichever parent has room. */
function choose(candidates: readonly Candidate[], host: HostFacts): Record<string, readonly string[]> {
  const used = new Set<string>();
  const chosen: Record<string, readonly string[]> = {};
  for (const { key, options, alternatives } of candidates) {
    if (options.mdev !== undefined) {
      chosen[key] = alternatives.flatMap((functions) => functions.slice(0, 1));
      continue;
    }
    const [only, ...others] = alternatives;
    const functions =
      others.length === 0
        ? only
        : alternatives.find((each) => !each.some((id) => used.has(id) || host.pciInUse?.has(id) === true));
    if (functions === undefined) throw refused(`could not find a free device for '${key}'`);
    for (const id of functions) {
      if (used.has(id)) throw refused(`device '${id}' assigned more than once`);
      used.add(id);
    }
    chosen[key] = functions;
  }
  return chosen;
}
