// Graphics: the card, VNC, and SPICE with its agent channel.
import { refused } from "../../../request/failures.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { VgaOptions } from "../../config/property-types.ts";
import type { Build } from "../build.ts";
import { device, type DeviceOptions, type OptionValue } from "../text/option-text.ts";
import { addressProperties, pcieAddress } from "./pci-address.ts";

export interface Display {
  readonly type: string;
  /** Number of QXL cards; 0 for other types. */
  readonly qxl: number;
  readonly options: VgaOptions;
}

const CARDS: Readonly<Record<string, string>> = {
  cirrus: "cirrus-vga",
  std: "VGA",
  vmware: "vmware-svga",
  virtio: "virtio-vga",
  "virtio-gl": "virtio-vga-gl",
};
/** QEMU for ARM has these without the VGA part. */
const ARM_CARDS: Readonly<Record<string, string>> = {
  "virtio-vga": "virtio-gpu",
  "virtio-vga-gl": "virtio-gpu-gl",
};
const MIB = 1024 * 1024;

export function chooseDisplay(build: Build): Display {
  const text = build.values["vga"];
  const options = text === undefined ? {} : readVmProperty("vga", text, "vga");
  const qxl = /^qxl([234])?$/.exec(options.type ?? "");
  if (qxl !== null) return { type: "qxl", qxl: Number(qxl[1] ?? 1), options };
  if (options.type !== undefined) return { type: options.type, qxl: 0, options };
  if (build.arch === "aarch64") return { type: "virtio", qxl: 0, options };
  const modern = build.since(2, 9) ? build.windows === 0 || build.windows >= 6 : build.windows >= 6;
  return { type: modern ? "std" : "cirrus", qxl: 0, options };
}

/** Neither a screen nor a pointing device. */
export function isSerialDisplay(display: Display): boolean {
  return /^serial\d+$/.test(display.type);
}

export function addDisplay(build: Build, display: Display): void {
  const { paths } = build.input;
  if (display.type === "none" || isSerialDisplay(display)) {
    if (display.type === "none") build.cmd.push("-vga", "none");
    // With -nodefaults this only keeps QEMU from opening a window.
    if (build.stock) build.cmd.push("-display", "none");
    else build.cmd.push("-nographic");
    return;
  }
  build.addDevice(vgaDevice(build, display));
  if (display.type === "virtio-gl") build.cmd.push("-display", "egl-headless,gl=core");
  const password = !build.stock || build.options.vncPassword === true ? ",password=on" : "";
  build.cmd.push("-vnc", `unix:${paths.vnc}${password}`);
}

export function addSpice(build: Build, display: Display): void {
  const vncClipboard = display.options.clipboard === "vnc";
  if (vncClipboard && !/^(?:std|cirrus|vmware|virtio|qxl)/.test(display.type))
    throw refused(`vga type ${display.type} is not compatible with VNC clipboard`);
  const wantsSpice = display.qxl > 0 || display.type.startsWith("virtio");
  const spice = wantsSpice && (!build.stock || build.host.spice !== undefined);
  if (wantsSpice && !spice && display.qxl > 0)
    build.notes.push("this QEMU has no SPICE: the QXL display is shown by VNC only");
  if (!spice && !vncClipboard) return;
  if (display.qxl > 1) addMoreScreens(build, display);
  build.addDevice(device("virtio-serial", ["id", "spice"], ...addressProperties(build.pci.place("spice"))));
  build.devices.push(
    "-chardev",
    vncClipboard ? "qemu-vdagent,id=vdagent,name=vdagent,clipboard=on" : "spicevmc,id=vdagent,name=vdagent",
  );
  build.devices.push("-device", "virtserialport,chardev=vdagent,name=com.redhat.spice.0");
  if (spice) addSpiceServer(build);
}

function addSpiceServer(build: Build): void {
  const text = build.values["spice_enhancements"];
  const extra = text === undefined ? {} : readVmProperty("spice_enhancements", text, "spice_enhancements");
  if (extra.foldersharing === true) {
    build.devices.push("-chardev", "spiceport,id=foldershare,name=org.spice-space.webdav.0");
    build.devices.push("-device", "virtserialport,chardev=foldershare,name=org.spice-space.webdav.0");
  }
  const facts = build.host.spice ?? { address: "127.0.0.1", tlsPort: 61000 };
  // Our proxy ends TLS, so QEMU only serves a private socket; it still asks for the password of the latest offer.
  const server = build.stock
    ? `unix=on,addr=${build.input.paths.spice},seamless-migration=on`
    : `tls-port=${facts.tlsPort},addr=${facts.address},tls-ciphers=HIGH,seamless-migration=on`;
  const video = extra.videostreaming === undefined ? "" : `,streaming-video=${extra.videostreaming}`;
  build.devices.push("-spice", `${server}${video}`);
}

/** Windows has a card per screen; other systems have one card with more memory. */
function addMoreScreens(build: Build, display: Display): void {
  if (build.windows > 0) {
    for (let index = 1; index < display.qxl; index++) build.addDevice(vgaDevice(build, display, index));
    return;
  }
  const memory = display.options.memory;
  const ram = memory === undefined ? 128 * MIB : display.qxl * 4 * memory * MIB;
  const vram = memory === undefined ? 64 * MIB : display.qxl * 2 * memory * MIB;
  build.cmd.push("-global", `qxl-vga.ram_size=${ram}`, "-global", `qxl-vga.vram_size=${vram}`);
}

function vgaDevice(build: Build, display: Display, index?: number): DeviceOptions {
  const { ostype, bios } = build.values;
  const card = display.qxl > 0 ? (index === undefined ? "qxl-vga" : "qxl") : CARDS[display.type];
  if (card === undefined) throw refused(`no device-type for ${display.type}`);
  if (display.type === "virtio-gl" && !build.host.renderNode) {
    throw refused(
      `no DRM render node detected (/dev/dri/renderD*), no GPU? - needed for '${display.type}' display`,
    );
  }
  const driver = (build.arch === "aarch64" ? ARM_CARDS[card] : undefined) ?? card;
  const id = `vga${index ?? ""}`;
  const manyScreens =
    display.qxl > 0 && build.since(4, 1) && (ostype === undefined || /^l\d\d|other$/.test(ostype));
  const address = build.q35 && index === undefined ? pcieAddress(id) : build.pci.place(id);
  return device(
    driver,
    ["id", id],
    ...videoMemory(display, index),
    ["max_outputs", manyScreens ? 4 : undefined],
    ...addressProperties(address),
    // Windows would otherwise take SeaBIOS's idea of the best resolution.
    ["edid", driver === "VGA" && build.windows > 0 && bios !== "ovmf" ? false : undefined],
  );
}

function videoMemory({ type, qxl, options }: Display, index?: number): (readonly [string, OptionValue])[] {
  const { memory } = options;
  if (memory === undefined) {
    if (qxl === 0 || index === undefined) return [];
    return [
      ["ram_size", 64 * MIB],
      ["vram_size", 32 * MIB],
    ];
  }
  if (type.startsWith("virtio")) return [["max_hostmem", memory * MIB]];
  if (qxl === 0) return [["vgamem_mb", memory]];
  return [
    ["vgamem_mb", memory],
    ["ram_size_mb", memory * 4],
    ["vram_size_mb", memory * 2],
  ];
}
