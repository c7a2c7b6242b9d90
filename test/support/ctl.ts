// gpvectl without the cost of a process: real network, files and clock.
import { listenLocally } from "@gpve/cli/local-listener.ts";
import { runCli } from "@gpve/cli/run-cli.ts";
import { NodeTransport } from "@gpve/client/node-transport.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { NetworkProbes } from "@gpve/talos/preflight/network-probes.ts";
import { systemClock } from "@gpve/kit/clock.ts";

export interface Ran {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

export function environmentOf(home: string): Record<string, string> {
  return { PATH: process.env["PATH"] ?? "", HOME: home };
}

export async function runCtl(home: string, argv: readonly string[], input = ""): Promise<Ran> {
  let out = "";
  let err = "";
  const stream = (take: (text: string) => void) => ({ write: take, isTTY: false, columns: undefined });
  const code = await runCli(argv, {
    stdout: stream((text) => (out += text)),
    stderr: stream((text) => (err += text)),
    env: environmentOf(home),
    homeDir: home,
    cwd: home,
    clock: systemClock,
    signal: new AbortController().signal,
    readStdin: () => Promise.resolve(input),
    ask: () => Promise.reject(new AppError("config.invalid", "no terminal here")),
    connect: (target) => new NodeTransport(target),
    probes: () => Promise.resolve(new NetworkProbes()),
    openTerminal: () => {
      throw new AppError("config.invalid", "no terminal here");
    },
    listen: listenLocally,
  });
  return { code, out, err };
}
