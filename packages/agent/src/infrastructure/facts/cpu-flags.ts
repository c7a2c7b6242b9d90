// The CPU flags of a QEMU: all it understands, and those a guest can really have under an accelerator.
import { ignore } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { CpuFlagFacts } from "@gpve/domain/node/runtime.ts";

const QUESTIONS = [
  { execute: "qmp_capabilities" },
  {
    execute: "query-cpu-model-expansion",
    id: "max",
    arguments: { type: "full", model: { name: "max" } },
  },
  { execute: "quit" },
];

export async function readCpuFlags(exec: Exec, binary: string): Promise<CpuFlagFacts | undefined> {
  const understood = await exec(binary, ["-cpu", "help"]).then(
    ({ stdout }) => parseUnderstoodFlags(stdout),
    (err: unknown) => {
      ignore(err, "then nothing is known of its flags");
      return [];
    },
  );
  if (understood.length === 0) return undefined;
  const [tcg, kvm] = [await askMax(exec, binary, "tcg"), await askMax(exec, binary, "kvm")];
  const known = new Set(understood);
  const among = (flags: readonly string[] | undefined): readonly string[] =>
    (flags ?? []).filter((flag) => known.has(flag)).toSorted();
  return { understood, tcg: among(tcg), kvm: among(kvm) };
}

/** The words after `Recognized CPUID flags:`, each once. */
export function parseUnderstoodFlags(help: string): string[] {
  const [, list] = help.split(/^Recognized CPUID flags:$/m);
  return [...new Set((list ?? "").split(/\s+/).filter((word) => word !== ""))].sort();
}

async function askMax(exec: Exec, binary: string, accel: "kvm" | "tcg"): Promise<string[] | undefined> {
  try {
    const { stdout } = await exec(
      binary,
      [
        "-machine",
        `none,accel=${accel}`,
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-S",
        "-qmp",
        "stdio",
      ],
      {
        input: QUESTIONS.map((question) => `${JSON.stringify(question)}\n`).join(""),
        timeoutMs: 20_000,
        diesWithUs: true,
      },
    );
    return parseExpansion(stdout);
  } catch (err) {
    ignore(err, "this host does not have that accelerator");
    return undefined;
  }
}

export function parseExpansion(output: string): string[] | undefined {
  for (const line of output.split("\n")) {
    if (!line.startsWith("{")) continue;
    const message = JSON.parse(line) as {
      id?: string;
      return?: { model?: { props?: Readonly<Record<string, unknown>> } };
    };
    const props = message.id === "max" ? message.return?.model?.props : undefined;
    if (props === undefined) continue;
    return Object.entries(props)
      .filter(([, value]) => value === true)
      .map(([name]) => name);
  }
  return undefined;
}
