// Somebody who has taken over a guest's process: its user and its namespaces. The guest's own mounts hold no program that
// could try anything, so the host's are left to him, /proc included: what he cannot do with them, he cannot do without.
import { readFileSync } from "node:fs";
import { exec } from "@gpve/kit/exec.ts";

export interface Reach {
  /** Attach as a debugger. */
  readonly traces: boolean;
  readonly signals: boolean;
  readonly readsMemory: boolean;
}

export const NO_REACH: Reach = { traces: false, signals: false, readsMemory: false };

const PTRACE = process.arch === "arm64" ? 117 : 101;
const ATTEMPTS = `
  my ($pid) = @ARGV;
  print kill(0, $pid) ? 1 : 0;
  print open(my $memory, "<", "/proc/$ENV{HOST_PID}/mem") ? 1 : 0;
  my $attached = syscall(${PTRACE}, 16, $pid + 0, 0, 0) == 0;
  if ($attached) { waitpid($pid, 0x40000000); syscall(${PTRACE}, 17, $pid + 0, 0, 0); }
  print $attached ? 1 : 0;
`;

/** What the user of process `from` can do to process `target`; `inside`: from its namespaces too. */
export async function reachOf(from: number, target: number, { inside }: { inside: boolean }): Promise<Reach> {
  const status = readFileSync(`/proc/${from}/status`, "utf8");
  const ids = (name: string): string[] =>
    (new RegExp(`^${name}:\\s*(.*)$`, "m").exec(status)?.[1] ?? "").trim().split(/\s+/);
  const enter = inside ? ["nsenter", "--target", String(from), "--pid", "--net", "--ipc", "--"] : [];
  const [first, ...words] = [
    ...enter,
    "setpriv",
    `--reuid=${ids("Uid")[0] ?? ""}`,
    `--regid=${ids("Gid")[0] ?? ""}`,
    `--groups=${ids("Groups").join(",")}`,
    "--no-new-privs",
    "--inh-caps=-all",
    "--bounding-set=-all",
    "perl",
    "-e",
    ATTEMPTS,
    String(target),
  ];
  const env = { PATH: "/usr/sbin:/usr/bin:/sbin:/bin", HOST_PID: String(target) };
  const { stdout } = await exec(first, words, { env });
  const [signals, readsMemory, traces] = stdout.split("").map((digit) => digit === "1");
  return { traces: traces === true, signals: signals === true, readsMemory: readsMemory === true };
}
