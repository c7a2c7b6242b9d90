// A line is a small process of the supervisor's binary, which can do what Node cannot: bind a socket to a device, and mark
// what it sends. It ends with its standard input.
import type { Readable } from "node:stream";
import { AppError } from "@gpve/contracts/errors.ts";
import type { ConsoleSocket } from "@gpve/domain/guest/console-socket.ts";
import { spawnPiped } from "@gpve/kit/spawn.ts";

export interface LinePlace {
  readonly device: string;
  readonly mark: number;
  readonly address: string;
  readonly port: number;
}

/** For last words that are on their way to the guest. */
const PARTING_MS = 10_000;
const MOST_WORDS = 4_096;

/** By the supervisor, as it is started here. Rejects with node.unavailable and the kernel's words when it cannot be had. */
export async function openLine(
  [program, ...before]: readonly [string, ...string[]],
  { device, mark, address, port }: LinePlace,
  signal: AbortSignal,
): Promise<ConsoleSocket> {
  const child = spawnPiped(program, [...before, "dial", device, String(mark), address, String(port)]);
  const onAbort = (): void => child.kill();
  signal.addEventListener("abort", onAbort, { once: true });
  if (signal.aborted) onAbort();
  try {
    const said = await firstLine(child.output);
    signal.throwIfAborted();
    if (said !== "open") {
      child.kill();
      await child.ended;
      throw new AppError("node.unavailable", said.replace(/^failed (?:connect: )?/, ""));
    }
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
  return {
    output: child.output,
    write: async (chunk) => {
      if (child.input.destroyed || child.input.writableEnded) throw new Error("the line is closed");
      if (child.input.write(chunk)) return;
      const room = Promise.withResolvers<void>();
      child.input.once("drain", room.resolve);
      await Promise.race([room.promise, child.ended]);
    },
    close: () => {
      if (child.input.writableEnded) return;
      child.input.end();
      // What comes now is for nobody, and must not keep the line from ending.
      child.output.resume();
      const late = setTimeout(() => child.kill(), PARTING_MS);
      late.unref();
      void child.ended.then(() => clearTimeout(late));
    },
    closed: child.ended,
  };
}

async function firstLine(output: Readable): Promise<string> {
  let said = Buffer.alloc(0);
  for await (const chunk of output.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    said = Buffer.concat([said, chunk]);
    const end = said.indexOf("\n");
    if (end < 0 && said.length < MOST_WORDS) continue;
    if (end < 0) break;
    if (end + 1 < said.length) output.unshift(said.subarray(end + 1));
    return said.toString("utf8", 0, end);
  }
  return "failed it ended without a word";
}
