// Server-sent events: one watch, written as fast as the client reads and no faster.
import type { ServerResponse } from "node:http";
import type { Problem } from "@gpve/contracts/v1/problem.ts";
import { roomIn } from "@gpve/kit/stream-room.ts";
import type { WatchItem } from "../../application/v1/watch-objects.ts";
import { objectJson } from "./object-json.ts";

/**
 * Answers with a stream of events. What fails before the first of them is thrown, so that it gets an HTTP status;
 * what fails later becomes a last event.
 */
export async function sendEvents(
  res: ServerResponse,
  items: AsyncGenerator<WatchItem>,
  headers: Readonly<Record<string, string>>,
  problemOfError: (err: unknown) => Problem,
): Promise<void> {
  let next = await items.next();
  res.writeHead(200, {
    ...headers,
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
  });
  res.flushHeaders();
  try {
    while (next.done !== true && !res.destroyed) {
      if (!res.write(eventText(next.value))) await roomIn(res);
      if (res.destroyed) break;
      next = await items.next();
    }
  } catch (err) {
    if (!res.destroyed) res.write(`event: ERROR\ndata: ${JSON.stringify(problemOfError(err))}\n\n`);
  } finally {
    await items.return(undefined);
  }
  res.end();
}

export function eventText(item: WatchItem): string {
  switch (item.type) {
    case "HEARTBEAT":
      return ": alive\n\n";
    case "BOOKMARK":
      return `event: BOOKMARK\nid: ${item.id}\ndata: {"metadata":{"resourceVersion":"${item.id}"}}\n\n`;
    case "ADDED":
    case "MODIFIED":
    case "DELETED":
      return `event: ${item.type}\nid: ${item.id}\ndata: ${objectJson(item.object)}\n\n`;
  }
}
