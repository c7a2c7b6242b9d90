// Whether an API server says of itself that it is ready: also whether its store answers it. Who is not of the cluster's
// authority is not believed.
import { Agent, request } from "node:https";
import type { PassageTarget } from "@gpve/kit/net/cluster-passages.ts";

/** Somebody who needs longer serves nobody. */
const ANSWER_MS = 3_000;

/** One connection to each, which stays: a look costs no handshake. */
export function readinessAsker(
  ca: string,
  answerMs = ANSWER_MS,
): (target: PassageTarget) => Promise<boolean> {
  const agent = new Agent({ keepAlive: true, maxSockets: 1, ca });
  return ({ host, port }) =>
    new Promise((resolve) => {
      const asked = request({ host, port, agent, path: "/readyz" }, (response) => {
        response.resume();
        response.once("end", () => resolve(response.statusCode === 200));
      });
      const giveUp = setTimeout(() => asked.destroy(), answerMs);
      asked.on("error", () => asked.destroy());
      asked.once("close", () => {
        clearTimeout(giveUp);
        resolve(false); // of no meaning after an answer
      });
      asked.end();
    });
}
