// Takes out of a command line what our hosts must do differently from PVE's. The classes are those of
// docs/reference/qemu-command-line.md; every rule here is a row there.
import { fixedDevices } from "./qemu-cfg2cmd-fixed-devices.ts";

const FRAME =
  /^-(?:id|name|uuid|no-shutdown|pidfile|daemonize|sandbox|no-user-config|chardev socket,id=qmp|mon)\b|^\/usr\/bin\/|^--(?:cpu-list|all-tasks)\b/;
const TEMPLATE = /^-(?:snapshot|loadstate .*)$/;

/** PVE's line is made with `-drive`: its machine version is before 10.0, by name or by the QEMU it is for. */
export function isBeforeBlockdev(expected: readonly string[], qemuVersion: string): boolean {
  const named = expected.map((line) => /^-machine .*type=[a-z0-9-]*?-(\d+)\.\d/.exec(line)?.[1]);
  return Number(named.find((major) => major !== undefined) ?? qemuVersion.split(".", 1)[0]) < 10;
}

/** One option with its value per line, in and out. */
export function normalise(lines: readonly string[], oldMachine: boolean, foreign = false): string[] {
  // Wherever it stands: an option of its own, or among the machine's flags. QEMU for others' CPUs has nothing else.
  const tcg = foreign || lines.some((line) => line === "-accel tcg" || /^-machine .*\baccel=tcg,/.test(line));
  const screen = !lines.some((line) => line === "-nographic" || line === "-display none");
  const result = fixedDevices(lines).flatMap((line) => {
    if (line.startsWith("-accel ")) return [];
    if (FRAME.test(line) || TEMPLATE.test(line)) return [];
    if (oldMachine && isBlockOption(line)) return [];
    if (tcg && line.startsWith("-global kvm-pit.")) return [];
    if (line.startsWith("-boot ")) return [boot(line, screen)];
    return [rewrite(tcg ? emulated(line) : line, oldMachine)];
  });
  return tcg ? [...result, "tcg"] : result;
}

/** The picture is PVE's; where there is no screen, nobody could open the menu. */
function boot(line: string, screen: boolean): string {
  const plain = line.replace(/,splash=[^,]*/, "");
  return screen ? plain : plain.replace(/menu=(?:on|off),/, "");
}

/** What the host's CPU is without KVM. */
function emulated(line: string): string {
  return line
    .replace(/^-cpu host\b/, "-cpu max")
    .replace(/^-device host-x86_64-cpu,/, "-device max-x86_64-cpu,")
    .replace(/^(-cpu max\b.*?),-vmx-mbec\b/, "$1");
}

/** With machine versions before 10.0 PVE still uses -drive. */
function isBlockOption(line: string): boolean {
  return /^-(?:drive|blockdev)\b|^-object \{"id":"throttle-drive-/.test(line);
}

function rewrite(line: string, oldMachine: boolean): string {
  const [option = ""] = line.split(" ", 1);
  switch (option) {
    case "-machine":
      return machine(line, oldMachine);
    case "-netdev":
      return netdev(line);
    case "-blockdev":
      return line.replaceAll('"auto-read-only":true,', "");
    case "-vnc":
      return line.replace(/unix:[^,]*,?/, "");
    case "-spice":
      return line.replace(/(?:unix=on|tls-port=\d+),addr=[^,]*,(?:tls-ciphers=HIGH,)?/, "");
    case "-chardev":
      return line.replace(/^-chardev socket,(.*),id=qga0$/, "-chardev socket,id=qga0,$1");
    case "-nographic":
      return "-display none";
    case "-object":
      return hostNodes(line);
    case "-device":
      return oldMachine ? oldDevice(line) : device(line);
    default:
      return line;
  }
}

/** A descriptor per queue here, a number of queues there; QEMU's user network knows no queues. */
function netdev(line: string): string {
  const options = new Map(
    line
      .replace(/^-netdev (?:type=)?/, "type=")
      .split(",")
      .map((pair): [string, string] => [pair.split("=", 1)[0] ?? "", pair.slice(pair.indexOf("=") + 1)]),
  );
  const id = options.get("id") ?? "";
  if (options.get("type") === "user")
    return `-netdev user,id=${id},hostname=${options.get("hostname") ?? ""}`;
  const counted = (name: string) => {
    const given = options.get(`${name}s`) ?? options.get(name);
    return given?.split(":").length;
  };
  const queues = counted("fd") ?? Number(options.get("queues") ?? 1);
  const vhost = options.get("vhost") === "on" ? (counted("vhostfd") ?? queues) : 0;
  return `-netdev tap,id=${id},queues=${queues},vhost=${vhost}`;
}

function machine(line: string, oldMachine: boolean): string {
  const plain = line
    .replace("accel=tcg,", "")
    .replace("kernel_irqchip=", "kernel-irqchip=")
    .replace(/type=pc-i440fx[^,]*/, "type=pc")
    .replace(/type=pc-q35[^,]*/, "type=q35")
    .replace(/type=(pc|q35|virt)(?:[-+][^,]*)?/, "type=$1");
  return oldMachine ? plain.replace(/pflash[01]=[^,]*,/g, "") : plain;
}

/** QEMU takes a list by repeating the key; PVE puts commas between. */
function hostNodes(line: string): string {
  const [head = "", ...rest] = line.split(",host-nodes=");
  return rest.length === 0 ? line : `${head},host-nodes=${rest.join(",")}`;
}

function device(line: string): string {
  return line
    .replace(/,romfile=pxe-[^,]*/, "")
    .replace(/^(-device ivshmem-plain,.*),$/, "$1")
    .replace(/^-device ib700,.*$/, "-device ib700")
    .replace(/^(-device ne2k_isa,.*),bus=[^,]*,addr=[^,]*/, "$1");
}

function oldDevice(line: string): string {
  return device(line)
    .replace(/,drive=drive-[^,]*/, "")
    .replace(/,device_id=drive-[^,]*/, "")
    .replace(/,write-cache=(?:on|off)/, "")
    .replace(/,[rw]error=\w+/g, "");
}

/** One option with its value per line; a value that is an option itself starts the next. */
export function optionLines(argv: readonly string[]): string[] {
  const result: string[] = [];
  for (const word of argv) {
    if (word.startsWith("-") || result.length === 0) result.push(word);
    else result[result.length - 1] += ` ${word}`;
  }
  return result;
}
