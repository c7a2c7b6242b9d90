// Connecting to a unix socket whose folder belongs to somebody else, for example a guest's own uid. The owner of the
// folder could put a symlink there and so lead us, root, to any socket of the host: the file is opened without
// following links, checked, and the connection goes through that very file. It also frees us from the 107 bytes a
// socket path may have.
import { closeSync, constants, fstatSync, openSync } from "node:fs";
import { createConnection, type Socket, type SocketConstructorOpts } from "node:net";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";
import { type Clock, systemClock } from "./clock.ts";

export interface UnixConnectOptions {
  /** Whoever else than ourselves may own the socket. */
  readonly ownerUid?: number;
  readonly timeoutMs?: number;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  /**
   * Takes what is read instead of "data" events, out of one buffer for all connections: it must be used up or copied
   * before it returns. For many connections that say little, whose own buffers would add up.
   */
  readonly onData?: (bytes: Uint8Array) => void;
}

const O_PATH = 0x20_0000;
const SHARED_BUFFER_BYTES = 64 * 1024;
let sharedBuffer: Uint8Array | undefined;

/** Rejects with the system's error (ENOENT, ECONNREFUSED) as cause when nobody listens. */
export function connectUnixSocket(path: string, options: UnixConnectOptions = {}): Promise<Socket> {
  const { timeoutMs = 5_000, signal, clock = systemClock } = options;
  return new Promise((resolve, reject) => {
    if (signal?.aborted === true) {
      reject(cancelled(path));
      return;
    }
    let file: number;
    try {
      file = openSocketFile(path, options.ownerUid);
    } catch (err) {
      reject(err instanceof AppError ? err : unreachable(path, err));
      return;
    }
    const socket = createConnection({ path: `/proc/self/fd/${file}`, ...reading(options.onData) });
    const finish = (): void => {
      closeSync(file);
      stopTimer();
      signal?.removeEventListener("abort", onAbort);
      socket.removeListener("error", onError);
      socket.removeListener("connect", onConnect);
    };
    const give = (error: AppError): void => {
      finish();
      socket.on("error", () => undefined); // already reported
      socket.destroy();
      reject(error);
    };
    const onConnect = (): void => {
      finish();
      resolve(socket);
    };
    const onError = (err: Error): void => give(unreachable(path, err));
    const onAbort = (): void => give(cancelled(path));
    const stopTimer = clock.after(timeoutMs, () =>
      give(new AppError("request.timeout", `nobody accepted a connection on ${path} within ${timeoutMs} ms`)),
    );
    socket.once("connect", onConnect);
    socket.once("error", onError);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

function reading(onData: UnixConnectOptions["onData"]): Pick<SocketConstructorOpts, "onread"> {
  if (onData === undefined) return {};
  sharedBuffer ??= new Uint8Array(SHARED_BUFFER_BYTES);
  const callback = (length: number, buffer: Uint8Array): boolean => {
    onData(buffer.subarray(0, length));
    return true;
  };
  return { onread: { buffer: sharedBuffer, callback } };
}

/** True when nobody listens there any more (or yet): the file is gone or refuses. */
export function isNobodyListening(err: unknown): boolean {
  const code = ((err as Error | undefined)?.cause as NodeJS.ErrnoException | undefined)?.code;
  return code === "ENOENT" || code === "ECONNREFUSED";
}

function openSocketFile(path: string, ownerUid: number | undefined): number {
  const file = openSync(path, O_PATH | constants.O_NOFOLLOW);
  const info = fstatSync(file);
  const owners = [process.getuid?.(), 0, ownerUid];
  if (info.isSocket() && owners.includes(info.uid)) return file;
  closeSync(file);
  throw new AppError(
    "access.denied",
    `${path} is ${info.isSocket() ? `a socket of user ${info.uid}` : "not a socket"}: refusing to speak to it`,
  );
}

function unreachable(path: string, cause: unknown): AppError {
  return new AppError("internal.error", `cannot connect to ${path}: ${messageOf(cause)}`, { cause });
}

function cancelled(path: string): AppError {
  return new AppError("operation.cancelled", `the connection to ${path} was cancelled`);
}
