// What a QEMU binary knows, by asking it: a machine without anything, and QMP on its standard streams.
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import type { MachineInfo } from "@gpve/domain/vm/qmp/qmp-types.ts";
import { type Exec, exec as systemExec } from "@gpve/kit/exec.ts";

export interface QemuKnowledge {
  readonly binary: string;
  /** "7.2.22" */
  readonly version: string;
  /** The distribution's: "Debian 1:7.2+dfsg-7". */
  readonly package: string;
  readonly machines: readonly MachineInfo[];
  /** Everything `-device` takes. */
  readonly devices: ReadonlySet<string>;
  /** Everything `-object` takes. */
  readonly objects: ReadonlySet<string>;
  readonly commands: ReadonlySet<string>;
}

const QUESTIONS = [
  { execute: "qmp_capabilities" },
  { execute: "query-version", id: "version" },
  { execute: "query-machines", id: "machines" },
  { execute: "query-commands", id: "commands" },
  { execute: "qom-list-types", arguments: { implements: "device", abstract: false }, id: "devices" },
  { execute: "qom-list-types", arguments: { implements: "user-creatable", abstract: false }, id: "objects" },
  { execute: "quit" },
];

/** Tenths of a second; callers keep the answer for as long as the binary stays the same. */
export async function askQemu(binary: string, exec: Exec = systemExec): Promise<QemuKnowledge> {
  let stdout: string;
  try {
    ({ stdout } = await exec(
      binary,
      ["-machine", "none", "-nodefaults", "-no-user-config", "-display", "none", "-S", "-qmp", "stdio"],
      {
        input: QUESTIONS.map((question) => `${JSON.stringify(question)}\n`).join(""),
        timeoutMs: 30_000,
        diesWithUs: true,
      },
    ));
  } catch (cause) {
    throw new AppError("feature.unsupported", `cannot ask ${binary} what it knows: ${messageOf(cause)}`, {
      cause,
    });
  }
  const answers = new Map<unknown, unknown>();
  for (const line of stdout.split("\n")) {
    if (!line.startsWith("{")) continue;
    const message = JSON.parse(line) as { id?: string; return?: unknown };
    if (message.id !== undefined) answers.set(message.id, message.return);
  }
  const version = answers.get("version") as
    | { qemu: { major: number; minor: number; micro: number }; package: string }
    | undefined;
  if (version === undefined) throw new AppError("feature.unsupported", `${binary} did not say its version`);
  const names = (id: string): ReadonlySet<string> =>
    new Set(((answers.get(id) ?? []) as { name: string }[]).map(({ name }) => name));
  const { major, minor, micro } = version.qemu;
  return {
    binary,
    version: `${major}.${minor}.${micro}`,
    package: version.package,
    machines: (answers.get("machines") ?? []) as MachineInfo[],
    devices: names("devices"),
    objects: names("objects"),
    commands: names("commands"),
  };
}
