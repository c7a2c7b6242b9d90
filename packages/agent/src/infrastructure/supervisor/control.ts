// The supervisor's control socket: one request per connection, NUL-terminated words, the answer is everything it says.
import { AppError } from "@gpve/contracts/errors.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { withoutNul } from "./spec-file.ts";

/** Resolves with what follows "ok"; rejects with the supervisor's own words. */
export async function askSupervisor(
  socketPath: string,
  words: readonly string[],
  options: { readonly clock: Clock; readonly timeoutMs?: number },
): Promise<string> {
  const { timeoutMs = 30_000, clock } = options;
  const request = words.map((word) => `${withoutNul(word)}\0`).join("");
  const socket = await connectUnixSocket(socketPath, { clock, timeoutMs });
  const stopTimer = clock.after(timeoutMs, () =>
    socket.destroy(
      new AppError("request.timeout", `the supervisor did not answer '${words[0]}' in ${timeoutMs} ms`),
    ),
  );
  try {
    socket.end(request);
    const chunks: Buffer[] = [];
    for await (const chunk of socket) chunks.push(chunk as Buffer);
    const answer = Buffer.concat(chunks).toString("utf8");
    if (answer === "ok") return "";
    if (answer.startsWith("ok ")) return answer.slice(3);
    if (answer.startsWith("{")) return answer;
    throw new AppError(
      "internal.error",
      `the supervisor could not '${words[0]}': ${answer === "" ? "it ended" : answer.replace(/^error /, "")}`,
    );
  } finally {
    stopTimer();
    socket.destroy();
  }
}
