// A few calls to the API of a virtual cluster, with a client certificate of its own authority.
import { request } from "node:https";
import { AppError, messageOf } from "@gpve/contracts/errors.ts";

export interface KubeCredentials {
  readonly host: string;
  readonly port: number;
  readonly ca: string;
  readonly cert: string;
  readonly key: string;
}

export interface KubeAnswer {
  readonly status: number;
  readonly body: string;
}

const ANSWER_MS = 10_000;
const MOST_BYTES = 16 * 1024 * 1024;

export function kubeCall(
  to: KubeCredentials,
  call: { readonly method: string; readonly path: string; readonly body?: unknown },
  signal: AbortSignal,
): Promise<KubeAnswer> {
  return new Promise((resolve, reject) => {
    const { host, port, ca, cert, key } = to;
    const body = call.body === undefined ? undefined : JSON.stringify(call.body);
    const sent = request(
      {
        host,
        port,
        ca,
        cert,
        key,
        method: call.method,
        path: call.path,
        agent: false,
        signal: AbortSignal.any([signal, AbortSignal.timeout(ANSWER_MS)]),
        headers: {
          Accept: "application/json",
          ...(body === undefined
            ? {}
            : {
                "Content-Type": call.method === "PATCH" ? "application/merge-patch+json" : "application/json",
              }),
        },
      },
      (response) => {
        const chunks: Buffer[] = [];
        let bytes = 0;
        response.on("data", (chunk: Buffer) => {
          bytes += chunk.length;
          if (bytes > MOST_BYTES) sent.destroy(new Error("the answer is too long"));
          else chunks.push(chunk);
        });
        response.on("end", () =>
          resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString("utf8") }),
        );
        response.on("error", reject);
      },
    );
    sent.on("error", reject);
    sent.end(body);
  });
}

/** Makes an object; one that is there already is as good. */
export async function kubeCreate(
  to: KubeCredentials,
  path: string,
  body: unknown,
  signal: AbortSignal,
): Promise<void> {
  const { status, body: answer } = await kubeCall(to, { method: "POST", path, body }, signal);
  if (status < 300 || status === 409) return;
  throw refused(`POST ${path}`, status, answer);
}

export function refused(what: string, status: number, answer: string): AppError {
  let message = answer.slice(0, 300);
  try {
    const parsed = JSON.parse(answer) as { message?: unknown };
    if (typeof parsed.message === "string") message = parsed.message.slice(0, 1000);
  } catch (err) {
    message = `${message} (${messageOf(err)})`;
  }
  return new AppError("internal.error", `the virtual cluster refused ${what} with ${status}: ${message}`);
}
