// Lines to standbys as a process: the agent of this node speaks to it at a socket that was handed over. While no agent is there, it
// goes on with what it was told last.
import { createServer, type Socket } from "node:net";
import { isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { onLines, sendLine } from "../link/json-lines.ts";
import { LineDials } from "./line-dials.ts";
import type { FromLines, ToLines } from "./line-messages.ts";
import { LinePlaces } from "./line-places.ts";

export interface ServeLinesDeps {
  /** Descriptor or path of the socket for the agent. */
  readonly control: { readonly fd: number } | { readonly path: string };
  readonly clock: Clock;
  readonly say: (line: string) => void;
}

export async function serveLines({ control, clock, say }: ServeLinesDeps): Promise<{ close(): void }> {
  let agent: Socket | undefined;
  const tell = (message: FromLines): void => {
    if (agent !== undefined) sendLine(agent, message);
  };
  const places = new LinePlaces(clock);
  const dials = new LineDials({
    clock,
    say,
    changed: (id) => tell({ line: id, ...given({ isOpen: dials.isOpen(id) }) }),
  });
  const done = (seq: number, work: Promise<{ readonly port?: number }>): void =>
    void work.then(
      (answer) => tell({ ack: seq, ...answer }),
      (err: unknown) =>
        tell({ ack: seq, why: messageOf(err), isReached: isAppError(err, "store.unavailable") }),
    );
  const take = (message: ToLines): void => {
    if ("dial" in message)
      done(
        message.seq,
        dials.dial(message.dial).then(() => ({})),
      );
    else if ("listen" in message)
      done(
        message.seq,
        places.listen(message.listen).then((port) => ({ port })),
      );
    else if ("drop" in message) dials.drop(message.drop);
    else places.keep(message.keep);
  };
  const server = createServer((socket) => {
    // The newest agent is the one there is.
    agent?.destroy();
    agent = socket;
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      if (agent === socket) agent = undefined;
    });
    onLines(socket, (message) => take(message as ToLines));
    tell({ lines: dials.seen() });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(control, resolve);
  });
  return {
    close() {
      server.close();
      agent?.destroy();
      dials.close();
      places.close();
    },
  };
}
