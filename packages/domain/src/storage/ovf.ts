// The description of a VM in an OVF envelope, as far as an import needs it. The text comes from outside: the reader
// knows elements, attributes and text, expands nothing and refuses document types.
import { SAFE_NAME } from "./content.ts";
import { storageRefused } from "./failures.ts";

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

export interface XmlElement {
  /** Without its namespace prefix. */
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  readonly text: string;
}

const MAX_DEPTH = 64;
const CONTROLLERS: Readonly<Record<string, string>> = { "5": "ide", "6": "scsi", "20": "sata" };
const MODELS: Readonly<Record<string, string>> = {
  e1000: "e1000",
  e1000e: "e1000e",
  pcnet32: "pcnet",
  vmxnet3: "vmxnet3",
  virtio: "virtio",
};
const SCSI_KINDS: Readonly<Record<string, string>> = { virtualscsi: "pvscsi", lsilogic: "lsi" };

export function parseOvf(text: string): OvfMachine {
  const envelope = parseXml(text);
  const system = find(envelope, "VirtualSystem");
  if (system === undefined) throw storageRefused("the OVF describes no virtual machine");
  const items = findAll(system, "Item");
  const files = new Map(
    findAll(envelope, "File").map((file) => [attribute(file, "id"), attribute(file, "href")]),
  );
  const byId = new Map(items.map((item) => [value(item, "InstanceID"), item]));
  const disks = new Map(findAll(envelope, "Disk").map((disk) => [attribute(disk, "diskId"), disk]));
  const config: Record<string, string | number> = {};
  const name = find(system, "Name")?.text.trim() ?? attribute(system, "id");
  if (/^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9-]+)*$/.test(name)) config["name"] = name;
  const cpus = quantity(ofType(items, "3")[0]);
  if (cpus !== undefined) config["cores"] = cpus;
  const memory = ofType(items, "4")[0];
  const bytes = quantity(memory);
  if (memory !== undefined && bytes !== undefined) {
    config["memory"] = Math.round(
      (bytes * unitBytes(value(memory, "AllocationUnits"), 1024 ** 2)) / 1024 ** 2,
    );
  }
  const scsi = SCSI_KINDS[value(ofType(items, "6")[0], "ResourceSubType").toLowerCase()];
  if (scsi !== undefined) config["scsihw"] = scsi;
  if (/key="firmware"[^>]*value="efi"/.test(text)) config["bios"] = "ovmf";
  return {
    config,
    disks: ofType(items, "17").flatMap((item) => diskOf(item, { byId, disks, files })),
    nets: Object.fromEntries(
      ofType(items, "10").map((item, at) => {
        const model = MODELS[value(item, "ResourceSubType").toLowerCase()] ?? "e1000";
        return [`net${at}`, { model }];
      }),
    ),
  };
}

function diskOf(
  item: XmlElement,
  known: {
    readonly byId: ReadonlyMap<string, XmlElement>;
    readonly disks: ReadonlyMap<string, XmlElement>;
    readonly files: ReadonlyMap<string, string>;
  },
): OvfDisk[] {
  const [, kind, id = ""] = /^(?:ovf:)?\/(disk|file)\/(.+)$/.exec(value(item, "HostResource")) ?? [];
  const disk = kind === "disk" ? known.disks.get(id) : undefined;
  const file = known.files.get(kind === "file" ? id : disk === undefined ? "" : attribute(disk, "fileRef"));
  const controller = CONTROLLERS[value(known.byId.get(value(item, "Parent")), "ResourceType")];
  const at = value(item, "AddressOnParent");
  if (file === undefined || controller === undefined || !/^\d{1,2}$/.test(at)) return [];
  if (!SAFE_NAME.test(file.replaceAll(" ", "_")) || file.startsWith(".")) {
    throw storageRefused(`the OVF names a file with a forbidden name: '${file}'`);
  }
  const capacity = Number(disk === undefined ? Number.NaN : attribute(disk, "capacity"));
  const unit = disk === undefined ? 1 : unitBytes(attribute(disk, "capacityAllocationUnits"), 1);
  const size = Number.isFinite(capacity) && capacity > 0 ? { size: capacity * unit } : {};
  return [{ address: `${controller}${Number(at)}`, file, ...size }];
}

/** "byte * 2^20" -> 1048576 */
function unitBytes(text: string, otherwise: number): number {
  const power = /2\^(\d{1,2})/.exec(text)?.[1];
  if (power !== undefined) return 2 ** Number(power);
  const known = { KiloBytes: 1024, MegaBytes: 1024 ** 2, GigaBytes: 1024 ** 3, byte: 1 }[text.trim()];
  return known ?? otherwise;
}

function ofType(items: readonly XmlElement[], type: string): XmlElement[] {
  return items.filter((item) => value(item, "ResourceType") === type);
}

function quantity(item: XmlElement | undefined): number | undefined {
  const number = Number(value(item, "VirtualQuantity"));
  return Number.isSafeInteger(number) && number > 0 ? number : undefined;
}

function value(element: XmlElement | undefined, name: string): string {
  return element?.children.find((child) => child.name === name)?.text.trim() ?? "";
}

function attribute(element: XmlElement, name: string): string {
  return element.attributes.get(name) ?? "";
}

function find(element: XmlElement, name: string): XmlElement | undefined {
  return findAll(element, name)[0];
}

function findAll(element: XmlElement, name: string): XmlElement[] {
  return element.children.flatMap((child) => [
    ...(child.name === name ? [child] : []),
    ...findAll(child, name),
  ]);
}

interface OpenElement {
  name: string;
  attributes: Map<string, string>;
  children: XmlElement[];
  text: string;
}

const TOKEN =
  /<!--[\s\S]*?-->|<\?[\s\S]*?\?>|<!\[CDATA\[([\s\S]*?)\]\]>|<(\/?)([^\s<>/!?]+)((?:[^<>"']|"[^"]*"|'[^']*')*?)(\/?)>|([^<]+)|</g;

export function parseXml(text: string): XmlElement {
  const top: OpenElement = { name: "", attributes: new Map(), children: [], text: "" };
  const open = [top];
  for (const [token, cdata, closing, name = "", rest = "", empty, plain] of text.matchAll(TOKEN)) {
    const current = open.at(-1) ?? top;
    if (plain !== undefined) current.text += unescape(plain);
    else if (cdata !== undefined) current.text += cdata;
    else if (token === "<") throw storageRefused("the OVF is no XML this software reads");
    else if (token.startsWith("<!--") || token.startsWith("<?")) continue;
    else if (closing === "/") {
      if (open.length < 2 || current.name !== localName(name)) throw storageRefused("the OVF is broken XML");
      open.pop();
    } else {
      const element: OpenElement = {
        name: localName(name),
        attributes: attributesOf(rest),
        children: [],
        text: "",
      };
      current.children.push(element);
      if (empty !== "/") open.push(element);
      if (open.length > MAX_DEPTH) throw storageRefused("the OVF is nested too deeply");
    }
  }
  if (open.length !== 1) throw storageRefused("the OVF is cut off");
  return top;
}

function attributesOf(text: string): Map<string, string> {
  const found = new Map<string, string>();
  for (const [, name = "", double, single] of text.matchAll(/([^\s=]+)\s*=\s*(?:"([^"]*)"|'([^']*)')/g)) {
    found.set(localName(name), unescape(double ?? single ?? ""));
  }
  return found;
}

function localName(name: string): string {
  return name.slice(name.indexOf(":") + 1);
}

const ENTITIES: Readonly<Record<string, string>> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'" };

function unescape(text: string): string {
  return text.replaceAll(/&(amp|lt|gt|quot|apos);/g, (whole, name: string) => ENTITIES[name] ?? whole);
}
