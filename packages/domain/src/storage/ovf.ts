import { given } from "@gpve/contracts/given.ts";
// The description of a VM in an OVF envelope, as far as an import needs it. The text comes from outside.
import { storageRefused } from "./failures.ts";
import { guestTypeOfOs } from "./ovf-os.ts";
import { attribute, child, childText, descendants, parseXml, type XmlElement } from "./xml.ts";

export interface OvfDisk {
  /** "scsi0" */
  readonly address: string;
  /** File name beside the description. */
  readonly file: string;
  /** Bytes, where stated. */
  readonly size?: number;
}

export interface OvfMachine {
  /** Keys of a VM's configuration. */
  readonly config: Readonly<Record<string, string | number>>;
  readonly disks: readonly OvfDisk[];
  readonly nets: Readonly<Record<string, { readonly model: string }>>;
}

/** Kinds of resources, by the numbers of CIM's resource allocation. */
const PROCESSOR = "3";
const MEMORY = "4";
const SCSI_CONTROLLER = "6";
const NETWORK_CARD = "10";
const DISK = "17";
const CONTROLLERS: Readonly<Record<string, string>> = { "5": "ide", [SCSI_CONTROLLER]: "scsi", "20": "sata" };
/** How many drives a VM can have on a bus. */
const DRIVES: Readonly<Record<string, number>> = { ide: 4, scsi: 31, sata: 6 };
const MODELS: readonly string[] = ["e1000", "e1000e", "vmxnet3"];
const SCSI_KINDS: Readonly<Record<string, string>> = { virtualscsi: "pvscsi", lsilogic: "lsi" };
const MAX_NAME = 255;
const MIB = 1024 ** 2;
// Within the description's own folder: no parts of a path, nothing that a shell or an URL would read otherwise.
const PLAIN_NAME = /^[ a-zA-Z0-9\-.+=_]+$/;

export function parseOvf(text: string): OvfMachine {
  const envelope = parseXml(text);
  const system = descendants(envelope, "VirtualSystem")[0];
  if (system === undefined) throw storageRefused("the OVF describes no virtual machine");
  const items = descendants(system, "Item", "StorageItem", "EthernetPortItem");
  const disks = disksOf(envelope, items);
  const name = nameOf(system);
  const cpus = quantity(ofType(items, PROCESSOR)[0]);
  const memory = memoryOf(ofType(items, MEMORY)[0]);
  const scsihw = SCSI_KINDS[childText(ofType(items, SCSI_CONTROLLER)[0], "ResourceSubType").toLowerCase()];
  const isEfi = descendants(system, "Config").some(
    (each) => attribute(each, "key") === "firmware" && attribute(each, "value") === "efi",
  );
  return {
    config: {
      ...(name === "" ? {} : { name }),
      ...given({ cores: cpus, memory }),
      ostype: guestTypeOfOs(attribute(child(system, "OperatingSystemSection"), "id")),
      ...(isEfi ? { bios: "ovmf" } : {}),
      ...(disks.length === 0 ? {} : { boot: `order=${disks.map(({ address }) => address).join(";")}` }),
      ...given({ scsihw }),
    },
    disks,
    nets: Object.fromEntries(
      ofType(items, NETWORK_CARD).map((item, at) => {
        const model = childText(item, "ResourceSubType").toLowerCase();
        return [`net${at}`, { model: MODELS.includes(model) ? model : "e1000" }];
      }),
    ),
  };
}

/** What of the name can be a host's. */
function nameOf(system: XmlElement): string {
  const written = child(system, "Name")?.text ?? attribute(system, "id");
  const usable = written.replaceAll(/[^a-zA-Z0-9\-.]/g, "").slice(0, MAX_NAME);
  return usable.replaceAll(/^[-.]+|[-.]+$/g, "");
}

/** MiB; a description that names no unit means these. */
function memoryOf(item: XmlElement | undefined): number | undefined {
  const amount = quantity(item);
  if (amount === undefined) return undefined;
  const memory = Math.round((amount * (unitBytes(childText(item, "AllocationUnits")) ?? MIB)) / MIB);
  return Number.isSafeInteger(memory) && memory > 0 ? memory : undefined;
}

function disksOf(envelope: XmlElement, items: readonly XmlElement[]): OvfDisk[] {
  const files = new Map(
    descendants(envelope, "File").map((file) => [attribute(file, "id"), attribute(file, "href")]),
  );
  const stated = new Map(descendants(envelope, "Disk").map((disk) => [attribute(disk, "diskId"), disk]));
  const byId = new Map(items.map((item) => [childText(item, "InstanceID"), item]));
  const taken = new Set<string>();
  return ofType(items, DISK).flatMap((item): OvfDisk[] => {
    const [, kind, id = ""] =
      /^(?:ovf:)?\/([\w.~-]+)\/([\w.~-]+)$/.exec(childText(item, "HostResource")) ?? [];
    const disk = kind === "file" ? undefined : stated.get(id);
    const file = files.get(kind === "file" ? id : attribute(disk, "fileRef"));
    const bus = CONTROLLERS[childText(byId.get(childText(item, "Parent")), "ResourceType")];
    const at = childText(item, "AddressOnParent");
    if (file === undefined || file === "" || bus === undefined || !/^\d{1,2}$/.test(at)) return [];
    if (!PLAIN_NAME.test(file) || file === "." || file === "..")
      throw storageRefused(`referenced path '${file}' is invalid`);
    const address = freeAddress(bus, Number(at), taken);
    if (address === undefined) return [];
    taken.add(address);
    const size =
      Number(attribute(disk, "capacity")) * (unitBytes(attribute(disk, "capacityAllocationUnits")) ?? 1);
    return [{ address, file, ...(Number.isSafeInteger(size) && size > 0 ? { size } : {}) }];
  });
}

/** Disks of a second controller of the same kind have the numbers of the first's: they come after them. */
function freeAddress(bus: string, wanted: number, taken: ReadonlySet<string>): string | undefined {
  const count = DRIVES[bus] ?? 0;
  return [wanted, ...Array.from({ length: count }, (_, index) => index)]
    .filter((at) => at < count)
    .map((at) => `${bus}${at}`)
    .find((address) => !taken.has(address));
}

/** "byte * 2^20" -> 1048576; undefined when it says nothing known. */
function unitBytes(text: string): number | undefined {
  const [, base, power] = /^\s*byte\s*\*\s*(\d{1,4})\s*\^\s*(\d{1,2})\s*$/.exec(text) ?? [];
  if (base !== undefined && power !== undefined) return Number(base) ** Number(power);
  return new Map([
    ["byte", 1],
    ["KiloBytes", 1024],
    ["MegaBytes", MIB],
    ["GigaBytes", 1024 ** 3],
  ]).get(text.trim());
}

function ofType(items: readonly XmlElement[], type: string): XmlElement[] {
  return items.filter((item) => childText(item, "ResourceType") === type);
}

function quantity(item: XmlElement | undefined): number | undefined {
  const number = Number(childText(item, "VirtualQuantity"));
  return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}
