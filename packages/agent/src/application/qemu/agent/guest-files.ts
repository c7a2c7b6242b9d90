// Programs and files inside a guest, through its agent.
import { given } from "@gpve/contracts/given.ts";
import type { GuestAgent } from "@gpve/domain/vm/running/guest-agent.ts";

const CHUNK_BYTES = 1024 * 1024;
export const MAX_READ_BYTES = 16 * 1024 * 1024;

export interface ExecStatus {
  readonly exited: boolean;
  readonly exitcode?: number;
  readonly signal?: number;
  readonly "out-data"?: string;
  readonly "err-data"?: string;
  readonly "out-truncated"?: boolean;
  readonly "err-truncated"?: boolean;
}

export async function startProgram(
  agent: GuestAgent,
  command: readonly string[],
  input: string | undefined,
  signal: AbortSignal,
): Promise<{ pid: number }> {
  const [path = "", ...arg] = command;
  const args = {
    path,
    arg,
    "capture-output": true,
    ...(input === undefined ? {} : { "input-data": Buffer.from(input).toString("base64") }),
  };
  const { pid } = (await agent.execute("guest-exec", args, { signal })) as { pid: number };
  return { pid };
}

export async function programStatus(
  agent: GuestAgent,
  pid: number,
  signal: AbortSignal,
): Promise<ExecStatus> {
  const status = (await agent.execute("guest-exec-status", { pid }, { signal })) as ExecStatus;
  const { exited, exitcode, signal: killedBy, "out-data": out, "err-data": err } = status;
  return {
    exited,
    ...given({ exitcode, signal: killedBy }),
    ...(out === undefined ? {} : { "out-data": textOf(Buffer.from(out, "base64")) }),
    ...(err === undefined ? {} : { "err-data": textOf(Buffer.from(err, "base64")) }),
    // Strict clients read these as true booleans: they are only there when they say something.
    ...(status["out-truncated"] === true ? { "out-truncated": true } : {}),
    ...(status["err-truncated"] === true ? { "err-truncated": true } : {}),
  };
}

export async function readGuestFile(
  agent: GuestAgent,
  request: {
    readonly file: string;
    readonly count: number;
    readonly offset: number;
    readonly decode: boolean;
  },
  signal: AbortSignal,
): Promise<{ content: string; "bytes-read": number; truncated?: boolean }> {
  const chunks: Buffer[] = [];
  const truncated = await withOpenFile(agent, request.file, "rb", signal, async (handle) => {
    if (request.offset > 0)
      await agent.execute("guest-file-seek", { handle, offset: request.offset, whence: "set" }, { signal });
    for (let left = request.count; left > 0;) {
      const part = (await agent.execute(
        "guest-file-read",
        { handle, count: Math.min(left, CHUNK_BYTES) },
        { signal, timeoutMs: 60_000 },
      )) as { count: number; "buf-b64": string; eof: boolean };
      chunks.push(Buffer.from(part["buf-b64"], "base64"));
      left -= part.count;
      if (part.eof || part.count === 0) return false;
    }
    return true;
  });
  const bytes = Buffer.concat(chunks);
  return {
    content: request.decode ? textOf(bytes) : bytes.toString("base64"),
    "bytes-read": bytes.length,
    ...(truncated ? { truncated: true } : {}),
  };
}

export async function writeGuestFile(
  agent: GuestAgent,
  file: string,
  base64: string,
  signal: AbortSignal,
): Promise<void> {
  await withOpenFile(agent, file, "wb", signal, async (handle) => {
    const bytes = Buffer.from(base64, "base64");
    for (let at = 0; at < bytes.length;) {
      const part = (await agent.execute(
        "guest-file-write",
        { handle, "buf-b64": bytes.subarray(at).toString("base64") },
        { signal },
      )) as { count: number };
      if (part.count <= 0) break;
      at += part.count;
    }
  });
}

async function withOpenFile<T>(
  agent: GuestAgent,
  path: string,
  mode: string,
  signal: AbortSignal,
  work: (handle: number) => Promise<T>,
): Promise<T> {
  const handle = (await agent.execute("guest-file-open", { path, mode }, { signal })) as number;
  try {
    return await work(handle);
  } finally {
    await agent.execute("guest-file-close", { handle });
  }
}

/** UTF-8 where it is that; else byte for byte, so that nothing is lost. */
function textOf(bytes: Buffer): string {
  const text = bytes.toString("utf8");
  return Buffer.from(text).equals(bytes) ? text : bytes.toString("latin1");
}
