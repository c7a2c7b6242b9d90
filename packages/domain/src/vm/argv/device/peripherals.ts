// Small devices: tablet, serial and parallel ports, sound, TPM, agent channel, RNG, balloon, watchdog, shared memory.
import { refused } from "../../../request/failures.ts";
import { readVmProperty } from "../../config/vm-properties.ts";
import type { Build } from "../build.ts";
import type { Display } from "./display.ts";
import { isSerialDisplay } from "./display.ts";
import { device, escapeComma, type DeviceOptions } from "../text/option-text.ts";
import { addressProperties, pcieAddress } from "./pci-address.ts";

const MAX_SERIAL = 4;
const MAX_PARALLEL = 3;
export const MAX_VIRTIOFS = 10;

/** VNC needs absolute pointer positions; SPICE brings its own. */
export function addPointer(build: Build, display: Display): void {
  const wanted = build.flag("tablet") ?? (display.qxl === 0 && !isSerialDisplay(display));
  if (!wanted) return;
  build.addDevice(tabletDevice(build));
  if (build.arch === "aarch64")
    build.addDevice(device("usb-kbd", ["id", "keyboard"], ["bus", "ehci.0"], ["port", "2"]));
}

export function tabletDevice(build: Build): DeviceOptions {
  const bus = build.q35 || build.arch === "aarch64" ? "ehci.0" : "uhci.0";
  return device("usb-tablet", ["id", "tablet"], ["bus", bus], ["port", "1"]);
}

export function addSerialPorts(build: Build): void {
  for (let index = 0; index < MAX_SERIAL; index++) {
    const path = build.values[`serial${index}`];
    if (path === undefined) continue;
    const id = `serial${index}`;
    if (path === "socket") {
      const socket = escapeComma(build.input.paths.serial(index));
      build.devices.push("-chardev", `socket,id=${id},path=${socket},server=on,wait=off`);
    } else {
      if (!build.host.characterDevices.has(path)) throw refused("no such serial device");
      build.devices.push("-chardev", `serial,id=${id},path=${escapeComma(path)}`);
    }
    // The first UART of the virt machine is soldered on.
    if (build.arch === "aarch64" && index === 0 && path === "socket")
      build.devices.push("-serial", `chardev:${id}`);
    else build.devices.push("-device", `isa-serial,chardev=${id}`);
  }
}

export function addParallelPorts(build: Build): void {
  for (let index = 0; index < MAX_PARALLEL; index++) {
    const path = build.values[`parallel${index}`];
    if (path === undefined) continue;
    if (!build.host.characterDevices.has(path)) throw refused("no such parallel device");
    const kind = path.startsWith("/dev/usb/lp") ? "serial" : "parallel";
    build.devices.push("-chardev", `${kind},id=parallel${index},path=${escapeComma(path)}`);
    build.devices.push("-device", `isa-parallel,chardev=parallel${index}`);
  }
}

export function addAudio(build: Build): void {
  const text = build.values["audio0"];
  if (text === undefined || !build.since(4, 0)) return;
  const audio = readVmProperty("audio0", text, "audio0");
  const spice = !build.stock || build.host.spice !== undefined;
  const backend = (audio.driver ?? "spice") === "spice" && spice ? "spice" : "none";
  const backendId = `${backend}-backend0`;
  const audiodev = build.since(4, 2) ? backendId : undefined;
  const address = addressProperties(build.pci.place("audio0"));
  if (audio.device === "AC97") {
    build.addDevice(device("AC97", ["id", "audiodev0"], ...address, ["audiodev", audiodev]));
  } else {
    build.addDevice(device(audio.device, ["id", "audiodev0"], ...address));
    for (const [index, codec] of ["hda-micro", "hda-duplex"].entries()) {
      build.addDevice(
        device(
          codec,
          ["id", `audiodev0-codec${index}`],
          ["bus", "audiodev0.0"],
          ["cad", index],
          ["audiodev", audiodev],
        ),
      );
    }
  }
  build.devices.push("-audiodev", `${backend},id=${backendId}`);
}

/** A template is backed up even when its TPM state cannot be written. */
export function addTpm(build: Build): void {
  if (build.values["tpmstate0"] === undefined || build.isTemplate) return;
  build.devices.push("-chardev", `socket,id=tpmchar,path=${escapeComma(build.input.paths.swtpm)}`);
  build.devices.push("-tpmdev", "emulator,id=tpmdev,chardev=tpmchar");
  build.devices.push("-device", "tpm-tis,tpmdev=tpmdev");
}

export function addAgent(build: Build): void {
  const text = build.values["agent"];
  if (text === undefined) return;
  const agent = readVmProperty("agent", text, "agent");
  if (!agent.enabled) return;
  const path = `path=${escapeComma(build.input.paths.agent)},server=on,wait=off`;
  build.devices.push("-chardev", build.stock ? `socket,id=qga0,${path}` : `socket,${path},id=qga0`);
  if (agent.type === "isa") {
    build.devices.push("-device", "isa-serial,chardev=qga0");
    return;
  }
  build.addDevice(device("virtio-serial", ["id", "qga0"], ...addressProperties(build.pci.place("qga0"))));
  build.devices.push("-device", "virtserialport,chardev=qga0,name=org.qemu.guest_agent.0");
}

const RNG_BYTES = 1024;
const RNG_PERIOD_MS = 1000;

export function addRng(build: Build): void {
  const text = build.values["rng0"];
  if (text === undefined || !build.guard(4, 1, 2)) return;
  const rng = readVmProperty("rng0", text, "rng0");
  const bytes = rng.max_bytes ?? RNG_BYTES;
  build.devices.push("-object", `rng-random,filename=${rng.source},id=rng0`);
  build.addDevice(
    device(
      "virtio-rng-pci",
      ["rng", "rng0"],
      ["max-bytes", bytes > 0 ? bytes : undefined],
      ["period", bytes > 0 ? (rng.period ?? RNG_PERIOD_MS) : undefined],
      ...addressProperties(build.pci.place("rng0")),
    ),
  );
}

export function addBalloon(build: Build): void {
  if (build.values["balloon"] === "0") return;
  build.addDevice(
    device("virtio-balloon-pci", ["id", "balloon0"], ...addressProperties(build.pci.place("balloon0")), [
      "free-page-reporting",
      build.since(6, 2) && build.knows("free-page-reporting") ? true : undefined,
    ]),
  );
}

export function addWatchdog(build: Build): void {
  const text = build.values["watchdog"];
  if (text === undefined) return;
  const watchdog = readVmProperty("watchdog", text, "watchdog");
  const model = watchdog.model ?? "i6300esb";
  const address = build.pci.place("watchdog");
  // ib700 is an ISA card.
  build.addDevice(device(model, ...(model === "ib700" && build.stock ? [] : addressProperties(address))));
  if (watchdog.action !== undefined) build.devices.push("-watchdog-action", watchdog.action);
}

export function addSharedMemory(build: Build): void {
  const text = build.values["ivshmem"];
  if (text === undefined) return;
  const shared = readVmProperty("ivshmem", text, "ivshmem");
  const address = build.q35 ? pcieAddress("ivshmem") : build.pci.place("ivshmem");
  const path = build.input.paths.sharedMemory(shared.name ?? String(build.vmid));
  const where = `bus=${address?.bus ?? ""},addr=${address?.addr ?? ""}`;
  // PVE writes a comma too many.
  build.devices.push("-device", `ivshmem-plain,memdev=ivshmem,${where}${build.stock ? "" : ","}`);
  build.devices.push(
    "-object",
    `memory-backend-file,id=ivshmem,share=on,mem-path=${escapeComma(path)},size=${shared.size}M`,
  );
}

export function hasVirtiofs(build: Build): boolean {
  return virtiofsKeys(build).length > 0;
}

export function addVirtiofs(build: Build): void {
  for (const key of virtiofsKeys(build)) {
    const share = readVmProperty("virtiofs", build.values[key] ?? "", key);
    if (!build.host.directoryMappings.has(share.dirid))
      throw refused(`Directory mapping not found for '${share.dirid}'`);
    if (share["expose-acl"] === true && build.windows > 0) {
      throw refused(
        "Please disable ACLs for virtiofs on Windows VMs, otherwise the virtiofs shared directory cannot be mounted.",
      );
    }
    const path = escapeComma(build.input.paths.virtiofs(Number(key.slice("virtiofs".length))));
    build.devices.push("-chardev", `socket,id=${key},path=${path}`);
    build.devices.push("-device", `vhost-user-fs-pci,queue-size=1024,chardev=${key},tag=${share.dirid}`);
  }
}

function virtiofsKeys(build: Build): string[] {
  return Array.from({ length: MAX_VIRTIOFS }, (_, index) => `virtiofs${index}`).filter(
    (key) => build.values[key] !== undefined,
  );
}
