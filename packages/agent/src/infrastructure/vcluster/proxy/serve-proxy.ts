// The proxy as a process: the agent of this node speaks to it at a socket that was handed over. While no agent is there, it
// goes on with what it was told last.
import { createServer, type Socket } from "node:net";
import type { Clock } from "@gpve/kit/clock.ts";
import { EndpointProxy } from "./endpoint-proxy.ts";
import { onLines, sendLine } from "../link/json-lines.ts";
import type { FromProxy, ToProxy } from "./proxy-messages.ts";

export interface ServeProxyDeps {
  /** Descriptor or path of the socket for the agent. */
  readonly control: { readonly fd: number } | { readonly path: string };
  readonly clock: Clock;
  readonly say: (line: string) => void;
  /** Of all clusters, by name. */
  readonly sharedPort?: number;
}

const TELL_MS = 500;

export async function serveProxy({
  control,
  clock,
  say,
  sharedPort,
}: ServeProxyDeps): Promise<{ close(): void }> {
  let agent: Socket | undefined;
  let told = "";
  const tell = (message: FromProxy): void => {
    if (agent !== undefined) sendLine(agent, message);
  };
  const proxy = new EndpointProxy({ clock, say, wake: (name) => tell({ wake: name }) });
  const tellSeen = (): void => {
    const seen = proxy.seen();
    const text = JSON.stringify(seen);
    if (text === told || agent === undefined) return;
    told = text;
    tell({ seen });
  };
  const take = async (message: ToProxy): Promise<void> => {
    if ("refuse" in message) {
      proxy.refuse(message.refuse);
      return;
    }
    await proxy.show(message.host, message.routes, { sharedPort, elsewhere: message.elsewhere });
    // What was seen goes first: whoever waits for the answer decides by it.
    tellSeen();
    tell({ ack: message.seq });
  };
  const server = createServer((socket) => {
    // The newest agent is the one there is.
    agent?.destroy();
    agent = socket;
    told = "";
    socket.on("error", () => socket.destroy());
    socket.once("close", () => {
      if (agent === socket) agent = undefined;
    });
    let last = Promise.resolve();
    onLines(socket, (message) => {
      last = last.then(() => take(message as ToProxy)).catch((err: unknown) => say(String(err)));
    });
    for (const name of proxy.wanted()) tell({ wake: name });
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(control, resolve);
  });
  let next = (): void => undefined;
  const tick = (): void => {
    tellSeen();
    next = clock.after(TELL_MS, tick);
  };
  tick();
  return {
    close() {
      next();
      server.close();
      agent?.destroy();
      proxy.close();
    },
  };
}
